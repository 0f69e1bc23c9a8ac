// Convolution to a few channels in ONNX's layout. A vector is 16 neighbouring outputs of a row, so
// that no lane is idle, however few the channels. A work-item computes BAND rows of all channels,
// CHANNELS x VECTORS sums at a time.

// Every STRIDE_X-th of a row's inputs, from `column` on, zero outside of the row, which begins at
// `start` of the map.
INLINE float16 read_row(__global const float *restrict in, const int start, const int column) {
  const int first = start + column, last = first + 15 * STRIDE_X;
  const int16 x = column + STRIDE_X * (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const int inside = column >= 0 && column + 15 * STRIDE_X < IN_WIDTH;
  float16 v;
  if (inside || (first >= 0 && last < IN_CHANNELS * IN_HEIGHT * IN_WIDTH)) {
#if STRIDE_X == 1
    v = load16(0, in + first);
#else
    // Not one element beyond the last: there may be none.
    v = (float16)(load16(0, in + first).even, load16(0, in + first + 15).odd);
#endif
    if (inside) return v;
  } else {
    // Only there does a vector reach beyond the map.
    float values[16];
    for (int i = 0; i < 16; i++)
      values[i] = in[clamp(first + i * STRIDE_X, 0, IN_CHANNELS * IN_HEIGHT * IN_WIDTH - 1)];
    v = *(float16 *)values;
  }
  return x >= 0 && x < IN_WIDTH ? v : (float16)(0.0f);
}

INLINE void tile(__global float *restrict out, __global const float *restrict in,
                 __global const float *restrict weights PARAMETERS, const int row,
                 const int column) {
  float16 sum[CHANNELS][VECTORS];
#pragma unroll
  for (int n = 0; n < CHANNELS; n++)
#pragma unroll
    for (int i = 0; i < VECTORS; i++) sum[n][i] = (float16)(0.0f);

  for (int c = 0; c < IN_CHANNELS; c++)
    for (int ky = 0; ky < KERNEL_HEIGHT; ky++) {
      const int y = row * STRIDE_Y - PAD_TOP + ky * DILATION_Y;
      if (y < 0 || y >= IN_HEIGHT) continue;
#pragma unroll 1
      for (int kx = 0; kx < KERNEL_WIDTH; kx++) {
        const int first = column * STRIDE_X - PAD_LEFT + kx * DILATION_X;
        // As they are packed for kernels whose vectors are channels.
        __global const float *w = weights + ((ky * KERNEL_WIDTH + kx) * IN_CHANNELS + c) * 16;
        float16 a[VECTORS];
#pragma unroll
        for (int i = 0; i < VECTORS; i++)
          a[i] = read_row(in, (c * IN_HEIGHT + y) * IN_WIDTH, first + i * 16 * STRIDE_X);
#pragma unroll
        for (int n = 0; n < CHANNELS; n++)
#pragma unroll
          for (int i = 0; i < VECTORS; i++) sum[n][i] = fma((float16)(w[n]), a[i], sum[n][i]);
      }
    }

#pragma unroll
  for (int n = 0; n < CHANNELS; n++)
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
      float16 v = sum[n][i];
#define LOAD_CHANNEL(array) (float16)(array[n])
      EPILOGUE
      store16(v, 0, out + (n * OUT_HEIGHT + row) * OUT_WIDTH + column + i * 16);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, __global const float *restrict in,
    __global const float *restrict weights PARAMETERS) {
  const int batch = get_global_id(1), first = get_global_id(0) * BAND;
  in += IN_OFFSET + batch * IN_BATCH;
  out += batch * OUT_BATCH;
  for (int row = first; row < min(first + BAND, OUT_HEIGHT); row++)
    for (int t = 0; t < TILES; t++)
      // The last tile may compute again what the one before it has.
      tile(out, in, weights ARGUMENTS, row, min(t * 16 * VECTORS, OUT_WIDTH - 16 * VECTORS));
}
