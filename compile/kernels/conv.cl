// Direct convolution. A work-item computes SPAN tiles of one output row; a tile is PIXELS
// neighbouring outputs of BLOCKS x 16 channels, all of it in registers. Weights come as vectors
// of 16 output channels, inputs as scalars that multiply them.

// One kernel column over `channels` input channels. The inputs' addresses are one pointer and
// constants: computed index by index they would cost as much as the arithmetic.
INLINE void accumulate(float16 sum[BLOCKS][PIXELS], __global const float *restrict in,
                       __global const float *restrict weights, const int channels,
                       const int column, const int kx, const int checked) {
  const int first = column * STRIDE_X - PAD_LEFT + kx * DILATION_X;
  __global const float *restrict at = in + first * IN_PIXEL;
#pragma unroll CHANNEL_UNROLL
  for (int c = 0; c < channels; c++) {
    float16 w[BLOCKS];
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
      w[b] = vload16(0, weights + (kx * channels + c) * WEIGHT_STEP + b * WEIGHT_BLOCK);
#pragma unroll
    for (int p = 0; p < PIXELS; p++) {
      const int x = first + p * STRIDE_X;
      if (checked && (x < 0 || x >= IN_WIDTH || column + p >= OUT_WIDTH)) continue;
      const float16 a = (float16)(at[p * STRIDE_X * IN_PIXEL + c * IN_CHANNEL]);
#pragma unroll
      for (int b = 0; b < BLOCKS; b++) sum[b][p] = fma(a, w[b], sum[b][p]);
    }
  }
}

// One kernel row. The columns stay a loop where nothing is checked: unrolled, the compiler would
// keep the inputs that neighbouring columns share in registers and spill the sums.
INLINE void accumulate_row(float16 sum[BLOCKS][PIXELS], __global const float *restrict in,
                           __global const float *restrict weights, const int channels,
                           const int column, const int checked) {
  if (checked) {
#pragma unroll
    for (int kx = 0; kx < KERNEL_WIDTH; kx++)
      accumulate(sum, in, weights, channels, column, kx, 1);
  } else {
#pragma unroll 1
    for (int kx = 0; kx < KERNEL_WIDTH; kx++)
      accumulate(sum, in, weights, channels, column, kx, 0);
  }
}

INLINE void tile(
    __global float *restrict out, __global const float *restrict in,
    __global const float *restrict weights PARAMETERS, const int base, const int row,
    const int block, const int column, const int checked) {
  float16 sum[BLOCKS][PIXELS];
#pragma unroll
  for (int b = 0; b < BLOCKS; b++)
#pragma unroll
    for (int p = 0; p < PIXELS; p++) sum[b][p] = (float16)(0.0f);

  for (int block_in = 0; block_in < IN_BLOCKS; block_in++) {
    for (int ky = 0; ky < KERNEL_HEIGHT; ky++) {
      const int y = row * STRIDE_Y - PAD_TOP + ky * DILATION_Y;
      if (y < 0 || y >= IN_HEIGHT) continue;
      accumulate_row(sum, in + block_in * IN_BLOCK + y * IN_WIDTH * IN_PIXEL,
                 weights + (block_in * KERNEL_HEIGHT + ky) * 16 * KERNEL_WIDTH * WEIGHT_STEP, 16, column,
                 checked);
    }
  }
#if IN_TAIL
  for (int ky = 0; ky < KERNEL_HEIGHT; ky++) {
    const int y = row * STRIDE_Y - PAD_TOP + ky * DILATION_Y;
    if (y < 0 || y >= IN_HEIGHT) continue;
    accumulate_row(sum, in + IN_BLOCKS * IN_BLOCK + y * IN_WIDTH * IN_PIXEL,
               weights + (IN_BLOCKS * KERNEL_HEIGHT * 16 + ky * IN_TAIL) * KERNEL_WIDTH * WEIGHT_STEP,
               IN_TAIL, column, checked);
  }
#endif

#pragma unroll
  for (int b = 0; b < BLOCKS; b++) {
    const int place = (block + b) / OUT_BLOCKS, channels = (block + b) % OUT_BLOCKS;
    const int lanes = OUT_LANES(channels);
#pragma unroll
    for (int p = 0; p < PIXELS; p++) {
      if (checked && column + p >= OUT_WIDTH) continue;
      const int at =
          base + channels * OUT_BLOCK + OUT_PIXEL_AT(place, row, column + p) * OUT_PIXEL;
      float16 v = sum[b][p];
#define LOAD_CHANNEL(array) vload16(channels, array)
#define LOAD_TENSOR(array) load_lanes(array + at, lanes)
      EPILOGUE
      store_lanes(v, out + at, lanes);
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, __global const float *restrict in,
    __global const float *restrict weights PARAMETERS) {
  const int batch = get_global_id(1) / OUT_HEIGHT, row = get_global_id(1) % OUT_HEIGHT;
  const int block = get_global_id(2) * BLOCKS;
  in += IN_OFFSET + batch * IN_BATCH + (block % OUT_BLOCKS / GROUP_OUT_BLOCKS) * GROUP_IN_OFFSET;
  weights += block * WEIGHT_BLOCK + batch * WEIGHT_BATCH;
  const int base = batch * OUT_BATCH;
  const int first = get_global_id(0) * SPAN;
  for (int t = first; t < min(first + SPAN, TILES); t++) {
    DISPATCH
  }
}
