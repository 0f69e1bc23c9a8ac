// A depthwise convolution and the pointwise convolution of what it gives. A work-item computes SPAN
// output rows of all channels; of the map in between only the row exists that is needed just now.
// Maps in and out are blocked.

// PIXELS outputs of the depthwise convolution.
INLINE void tile(float16 *restrict out, __global const float *restrict in,
                 __global const float *restrict weights PARAMETERS, const int base, const int row,
                 const int block, const int column, const int checked) {
  float16 sum[PIXELS];
  slide(sum, in, weights, row, column, checked);
#pragma unroll
  for (int p = 0; p < PIXELS; p++) {
    if (checked && column + p >= SLIDE_WIDTH) continue;
    float16 v = sum[p];
#define LOAD_CHANNEL(array) load16(block, array)
    DEPTHWISE_EPILOGUE
    out[base + column + p] = v;
  }
}

INLINE void depthwise_row(float16 *restrict out, __global const float *restrict in,
                          __global const float *restrict weights PARAMETERS, const int row,
                          const int block) {
  const int base = block * SLIDE_WIDTH;
#pragma unroll 1
  for (int t = 0; t < TILES; t++) {
    DISPATCH
  }
}

// One output row of BLOCKS x 16 channels: POINTWISE_TILES tiles of POINTWISE_PIXELS, of which the
// last may overlap the one before.
INLINE void pointwise_row(__global float *restrict out, const float16 *restrict between,
                          __global const float *restrict weights PARAMETERS, const int base,
                          const int block) {
#pragma unroll 1
  for (int t = 0; t < POINTWISE_TILES; t++) {
    const int column = min(t * POINTWISE_PIXELS, SLIDE_WIDTH - POINTWISE_PIXELS);
    float16 sum[BLOCKS][POINTWISE_PIXELS];
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
      for (int p = 0; p < POINTWISE_PIXELS; p++) sum[b][p] = (float16)(0.0f);
#pragma unroll 1
    for (int first = 0; first < CHANNELS; first += 16) {
      // One pointer and constants: see the direct convolution.
      const float *restrict at = (const float *)(between + first / 16 * SLIDE_WIDTH + column);
      const int count = min(16, CHANNELS - first);
#pragma unroll 1
      for (int c = 0; c < count; c++) {
        float16 w[BLOCKS];
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) w[b] = load16(first + c, weights + b * CHANNELS * 16);
#pragma unroll
        for (int p = 0; p < POINTWISE_PIXELS; p++) {
          const float16 a = (float16)(at[p * 16 + c]);
#pragma unroll
          for (int b = 0; b < BLOCKS; b++) sum[b][p] = fma(a, w[b], sum[b][p]);
        }
      }
    }
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
      for (int p = 0; p < POINTWISE_PIXELS; p++) {
        if (column + p < t * POINTWISE_PIXELS) continue;
        const int at = base + b * OUT_BLOCK + (column + p) * 16;
        float16 v = sum[b][p];
#undef LOAD_CHANNEL
#define LOAD_CHANNEL(array) load16(block + b, array)
#define LOAD_TENSOR(array) load16(0, array + at)
        EPILOGUE
        store16(v, 0, out + at);
      }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, __global const float *restrict in,
    __global const float *restrict depthwise, __global const float *restrict pointwise
    PARAMETERS) {
  const int first = get_global_id(0) * SPAN, batch = get_global_id(1);
  in += IN_OFFSET + batch * IN_BATCH;
  float16 between[IN_BLOCKS * SLIDE_WIDTH];
  for (int row = first; row < min(first + SPAN, OUT_HEIGHT); row++) {
    for (int b = 0; b < IN_BLOCKS; b++)
      depthwise_row(between, in + b * IN_BLOCK, depthwise + b * KERNEL_HEIGHT * KERNEL_WIDTH * 16
                    ARGUMENTS, row, b);
    for (int b = 0; b < OUT_BLOCKS; b += BLOCKS)
      pointwise_row(out, between, pointwise + b * CHANNELS * 16 ARGUMENTS,
                    (batch * OUT_BLOCKS + b) * OUT_BLOCK + row * SLIDE_WIDTH * 16, b);
  }
}
