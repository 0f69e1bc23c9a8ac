// A pointwise convolution and the depthwise convolution of what it gives. A work-item computes a
// band of output rows of 16 channels; the rows between the two that it needs just now are all that
// exists of the map in between. Map out is blocked.

// One row between: EXPAND_TILES tiles of EXPAND_PIXELS; the last may overlap the one before.
INLINE void expand_row(float16 *restrict row, __global const float *restrict in,
                       __global const float *restrict weights PARAMETERS, const int block) {
#pragma unroll 1
  for (int t = 0; t < EXPAND_TILES; t++) {
    const int column = min(t * EXPAND_PIXELS, IN_WIDTH - EXPAND_PIXELS);
    float16 sum[EXPAND_PIXELS];
#pragma unroll
    for (int p = 0; p < EXPAND_PIXELS; p++) sum[p] = (float16)(0.0f);
#pragma unroll 1
    for (int first = 0; first < IN_CHANNELS; first += 16) {
      // One pointer and constants: see the direct convolution.
      __global const float *restrict at = in + first / 16 * IN_BLOCK + column * IN_PIXEL;
      const int count = min(16, IN_CHANNELS - first);
#pragma unroll 1
      for (int c = 0; c < count; c++) {
        const float16 w = load16(first + c, weights);
#pragma unroll
        for (int p = 0; p < EXPAND_PIXELS; p++)
          sum[p] = fma((float16)(at[p * IN_PIXEL + c * IN_CHANNEL]), w, sum[p]);
      }
    }
#pragma unroll
    for (int p = 0; p < EXPAND_PIXELS; p++) {
      float16 v = sum[p];
#define LOAD_CHANNEL(array) load16(block, array)
      EXPAND_EPILOGUE
      row[column + p] = v;
    }
  }
}

// One output row: DEPTHWISE_TILES tiles of DEPTHWISE_PIXELS; `top` is the kernel's first row.
INLINE void depthwise_row(__global float *restrict out, float16 rows[ROWS][ROW_LENGTH],
                          __global const float *restrict weights PARAMETERS, const int block,
                          const int base, const int top) {
#pragma unroll 1
  for (int t = 0; t < DEPTHWISE_TILES; t++) {
    const int column = min(t * DEPTHWISE_PIXELS, OUT_WIDTH - DEPTHWISE_PIXELS);
    float16 sum[DEPTHWISE_PIXELS];
#pragma unroll
    for (int p = 0; p < DEPTHWISE_PIXELS; p++) sum[p] = (float16)(0.0f);
#pragma unroll 1
    for (int ky = 0; ky < KERNEL_HEIGHT; ky++) {
      const int y = top + ky * DILATION_Y;
      if (y < 0 || y >= IN_HEIGHT) continue;
      const float16 *restrict at = rows[y % ROWS] + column * STRIDE_X;
#pragma unroll
      for (int kx = 0; kx < KERNEL_WIDTH; kx++) {
        const float16 w = load16(ky * KERNEL_WIDTH + kx, weights);
#pragma unroll
        for (int p = 0; p < DEPTHWISE_PIXELS; p++)
          sum[p] = fma(at[p * STRIDE_X + kx * DILATION_X], w, sum[p]);
      }
    }
#pragma unroll
    for (int p = 0; p < DEPTHWISE_PIXELS; p++) {
      const int at = base + (column + p) * 16;
      float16 v = sum[p];
#define LOAD_TENSOR(array) load16(0, array + at)
      EPILOGUE
      store16(v, 0, out + at);
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, __global const float *restrict in,
    __global const float *restrict expanding, __global const float *restrict weights PARAMETERS) {
  const int block = get_global_id(0), batch = get_global_id(2);
  const int first = get_global_id(1) * BAND, last = min(first + BAND, OUT_HEIGHT);
  in += batch * IN_BATCH;
  expanding += block * IN_CHANNELS * 16;
  weights += block * KERNEL_HEIGHT * KERNEL_WIDTH * 16;
  // A ring: row y is in rows[y % ROWS], with its padding at both ends.
  float16 rows[ROWS][ROW_LENGTH];
  for (int r = 0; r < ROWS; r++) {
    for (int x = 0; x < PAD_LEFT; x++) rows[r][x] = (float16)(0.0f);
    for (int x = PAD_LEFT + IN_WIDTH; x < ROW_LENGTH; x++) rows[r][x] = (float16)(0.0f);
  }
  int next = 0;
  for (int row = first; row < last; row++) {
    const int top = row * STRIDE_Y - PAD_TOP;
    for (next = max(next, top); next < min(top + ROWS, IN_HEIGHT); next++)
      expand_row(rows[next % ROWS] + PAD_LEFT, in + next * IN_WIDTH * IN_PIXEL, expanding ARGUMENTS,
                 block);
    depthwise_row(out, rows, weights ARGUMENTS, block,
                  (batch * BLOCKS + block) * OUT_BLOCK + row * OUT_WIDTH * 16, top);
  }
}
