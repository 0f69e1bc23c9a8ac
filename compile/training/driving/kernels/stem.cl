// The first layers: 3x3, stride 2, of both cameras. Image pairs are never put together: pair
// n = (sequence, step) reads frames sequence * (STEPS + 1) + step and the one after it.
#define ROW (WIDTH + 2)
#define PLANE ((HEIGHT + 2) * ROW)
#define OUT_HEIGHT (HEIGHT / 2)
#define OUT_WIDTH (WIDTH / 2)
#define FIRST_FRAME(n) ((n) / STEPS * (STEPS + 1) + (n) % STEPS)
#define PLANE_OF(frame, camera, c) ((((frame) + (c) / 6) * 2 + (camera)) * 6 + (c) % 6)

#if UNPACK
// Scaled pixels of frames (F, 2, 6, HEIGHT, WIDTH) with zeros around them. One plane each.
KERNEL void NAME(OUT out, __global const uchar *restrict images) {
  const int plane = get_global_id(0);
  images += plane * HEIGHT * WIDTH;
  out += plane * PLANE;
  for (int x = 0; x < ROW; x++) out[x] = out[(HEIGHT + 1) * ROW + x] = 0.0f;
  for (int y = 0; y < HEIGHT; y++) {
    OUT row = out + (y + 1) * ROW;
    row[0] = row[ROW - 1] = 0.0f;
    for (int x = 0; x < WIDTH; x += 16) {
      const float16 value = convert_float16(convert_int16(vload16(0, images + y * WIDTH + x)));
      vstore16((value - MEAN) * SCALE, 0, row + 1 + x);
    }
  }
}
#endif

#if FORWARD
// out (N, OUT_HEIGHT, OUT_WIDTH, 2 * 16 * BLOCKS), weights (2, BLOCKS, 12 * 9, 16). One row each.
KERNEL void NAME(OUT out, IN frames, IN weights, IN bias) {
  const int row = get_global_id(0), block = get_global_id(1), n = get_global_id(2);
  const int camera = block / BLOCKS;
  weights += block * 12 * 9 * 16;
  const float16 start = vload16(block, bias);
  for (int column = 0; column < OUT_WIDTH; column += PIXELS) {
    float16 sum[PIXELS];
#pragma unroll
    for (int p = 0; p < PIXELS; p++) sum[p] = start;
    for (int c = 0; c < 12; c++) {
      IN plane = frames + PLANE_OF(FIRST_FRAME(n), camera, c) * PLANE;
      for (int ky = 0; ky < 3; ky++) {
        IN from = plane + (2 * row + ky) * ROW + 2 * column;
#pragma unroll
        for (int kx = 0; kx < 3; kx++) {
          const float16 w = vload16((c * 3 + ky) * 3 + kx, weights);
#pragma unroll
          for (int p = 0; p < PIXELS; p++)
            sum[p] = fma((float16)(from[2 * p + kx]), w, sum[p]);
        }
      }
    }
#pragma unroll
    for (int p = 0; p < PIXELS; p++) {
      const float16 y = sum[p] > 0.0f ? sum[p] : (float16)(0.0f);
      vstore16(y, block, out + ((n * OUT_HEIGHT + row) * OUT_WIDTH + column + p) * 2 * BLOCKS * 16);
    }
  }
}
#endif

#if GRADIENT_OF_WEIGHTS
// sums (N, 2 * BLOCKS, 12 * 9, 16) of each pair.
KERNEL void NAME(OUT sums, IN grad, IN frames) {
  const int block = get_global_id(0), n = get_global_id(1), camera = block / BLOCKS;
  sums += (n * 2 * BLOCKS + block) * 12 * 9 * 16;
  grad += n * OUT_HEIGHT * OUT_WIDTH * 2 * BLOCKS * 16 + block * 16;
  float16 total[12 * 9];
  for (int k = 0; k < 12 * 9; k++) total[k] = (float16)(0.0f);
  for (int row = 0; row < OUT_HEIGHT; row++) {
    float16 g[OUT_WIDTH];
    for (int x = 0; x < OUT_WIDTH; x++)
      g[x] = vload16(0, grad + (row * OUT_WIDTH + x) * 2 * BLOCKS * 16);
    for (int c = 0; c < 12; c += 2) {
      IN one = frames + PLANE_OF(FIRST_FRAME(n), camera, c) * PLANE + 2 * row * ROW;
      IN two = one + PLANE;
      float16 sum[18];
#pragma unroll
      for (int k = 0; k < 18; k++) sum[k] = total[c * 9 + k];
#pragma unroll 1
      for (int x = 0; x < OUT_WIDTH; x++) {
#pragma unroll
        for (int k = 0; k < 9; k++) {
          sum[k] = fma(g[x], (float16)(one[k / 3 * ROW + 2 * x + k % 3]), sum[k]);
          sum[k + 9] = fma(g[x], (float16)(two[k / 3 * ROW + 2 * x + k % 3]), sum[k + 9]);
        }
      }
#pragma unroll
      for (int k = 0; k < 18; k++) total[c * 9 + k] = sum[k];
    }
  }
  for (int k = 0; k < 12 * 9; k++) vstore16(total[k], k, sums);
}
#endif
