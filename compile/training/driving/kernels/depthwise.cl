// Depthwise convolution and its gradients; weights are (C / 16, SIZE * SIZE, 16). A work-item takes
// 16 channels of one image and keeps the SIZE rows that it needs, with zeros around, in a ring:
// input row r lies in slot (r + PAD) % SIZE.
#define PADDED (IN_WIDTH + 2 * PAD)

INLINE void fill_row(float16 ring[SIZE][PADDED], IN in, const int row) {
  float16 *to = ring[(row + PAD) % SIZE];
  if (row < 0 || row >= IN_HEIGHT) {
    for (int x = 0; x < PADDED; x++) to[x] = (float16)(0.0f);
    return;
  }
  for (int x = 0; x < PAD; x++) to[x] = to[PADDED - 1 - x] = (float16)(0.0f);
  for (int x = 0; x < IN_WIDTH; x++) to[x + PAD] = vload16(0, in + (row * IN_WIDTH + x) * CHANNELS);
}

// Makes the ring hold what output row `row` reads.
INLINE void advance(float16 ring[SIZE][PADDED], IN in, const int row) {
  const int from = row ? SIZE - STRIDE : 0;
  for (int k = from; k < SIZE; k++) fill_row(ring, in, row * STRIDE - PAD + k);
}

#if FORWARD
KERNEL void NAME(OUT out, IN in, IN weights BIAS_PARAMETER) {
  const int block = get_global_id(0), image = get_global_id(1);
  in += image * IN_HEIGHT * IN_WIDTH * CHANNELS + block * 16;
  out += image * OUT_HEIGHT * OUT_WIDTH * CHANNELS + block * 16;
  weights += block * SIZE * SIZE * 16;
  float16 ring[SIZE][PADDED];
  for (int row = 0; row < OUT_HEIGHT; row++) {
    advance(ring, in, row);
    for (int column = 0; column < OUT_WIDTH; column += PIXELS) {
      float16 sum[PIXELS];
#pragma unroll
      for (int p = 0; p < PIXELS; p++) sum[p] = START;
#pragma unroll
      for (int ky = 0; ky < SIZE; ky++) {
        const float16 *from = ring[(row * STRIDE + ky) % SIZE] + column * STRIDE;
#pragma unroll
        for (int kx = 0; kx < SIZE; kx++) {
          const float16 w = vload16(ky * SIZE + kx, weights);
#pragma unroll
          for (int p = 0; p < PIXELS; p++) sum[p] = fma(from[p * STRIDE + kx], w, sum[p]);
        }
      }
#pragma unroll
      for (int p = 0; p < PIXELS; p++)
        vstore16(sum[p], 0, out + (row * OUT_WIDTH + column + p) * CHANNELS);
    }
  }
}
#endif

#if GRADIENT_OF_WEIGHTS
// sums (N, C / 16, SIZE * SIZE + 1, 16): per image, of each weight and, last, of the bias.
KERNEL void NAME(OUT sums, IN grad, IN in) {
  const int block = get_global_id(0), image = get_global_id(1);
  in += image * IN_HEIGHT * IN_WIDTH * CHANNELS + block * 16;
  grad += image * OUT_HEIGHT * OUT_WIDTH * CHANNELS + block * 16;
  sums += (image * (CHANNELS / 16) + block) * (SIZE * SIZE + 1) * 16;
  float16 ring[SIZE][PADDED];
  float16 sum[SIZE * SIZE + 1];
#pragma unroll
  for (int k = 0; k <= SIZE * SIZE; k++) sum[k] = (float16)(0.0f);
  for (int row = 0; row < OUT_HEIGHT; row++) {
    advance(ring, in, row);
    const float16 *from[SIZE];
#pragma unroll
    for (int ky = 0; ky < SIZE; ky++) from[ky] = ring[(row * STRIDE + ky) % SIZE];
#pragma unroll 1
    for (int column = 0; column < OUT_WIDTH; column++) {
      const float16 g = vload16(0, grad + (row * OUT_WIDTH + column) * CHANNELS);
      sum[SIZE * SIZE] += g;
#pragma unroll
      for (int ky = 0; ky < SIZE; ky++)
#pragma unroll
        for (int kx = 0; kx < SIZE; kx++)
          sum[ky * SIZE + kx] = fma(g, from[ky][column * STRIDE + kx], sum[ky * SIZE + kx]);
    }
  }
#pragma unroll
  for (int k = 0; k <= SIZE * SIZE; k++) vstore16(sum[k], k, sums);
}
#endif

#if GRADIENT_OF_HALVING
// The gradient of the input of a 3x3 convolution of stride 2: each gradient pixel (j, i) answers
// for the input pixels (2j, 2i) to (2j + 1, 2i + 1), together with its neighbours after it.
#define W(ky, kx) vload16((ky) * 3 + (kx), weights)
#define PUT(y, x, value) vstore16(value, 0, out + ((2 * j + (y)) * 2 * OUT_WIDTH + 2 * i + (x)) * CHANNELS)
KERNEL void NAME(OUT out, IN grad, IN weights) {
  const int block = get_global_id(0), image = get_global_id(1);
  grad += image * OUT_HEIGHT * OUT_WIDTH * CHANNELS + block * 16;
  out += image * OUT_HEIGHT * OUT_WIDTH * 4 * CHANNELS + block * 16;
  weights += block * 9 * 16;
  const float16 zero = (float16)(0.0f);
  for (int j = 0; j < OUT_HEIGHT; j++) {
    IN here = grad + j * OUT_WIDTH * CHANNELS;
    IN under = here + OUT_WIDTH * CHANNELS;
    const int low = j + 1 < OUT_HEIGHT;
    float16 a = vload16(0, here), b = low ? vload16(0, under) : zero;
    for (int i = 0; i < OUT_WIDTH; i++) {
      const int right = i + 1 < OUT_WIDTH;
      const float16 c = right ? vload16(0, here + (i + 1) * CHANNELS) : zero;
      const float16 d = right && low ? vload16(0, under + (i + 1) * CHANNELS) : zero;
      PUT(0, 0, a * W(1, 1));
      PUT(0, 1, fma(c, W(1, 0), a * W(1, 2)));
      PUT(1, 0, fma(b, W(0, 1), a * W(2, 1)));
      PUT(1, 1, fma(d, W(0, 0), fma(b, W(0, 2), fma(c, W(2, 0), a * W(2, 2)))));
      a = c;
      b = d;
    }
  }
}
#endif
