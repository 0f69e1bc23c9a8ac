// Depthwise convolution: each channel has its own kernel. A work-item computes SPAN tiles of one
// output row of 16 channels; a tile is PIXELS neighbouring outputs. Map in and out are blocked.

INLINE void tile(__global float *restrict out, __global const float *restrict in,
                 __global const float *restrict weights PARAMETERS, const int base, const int row,
                 const int block, const int column, const int checked) {
  float16 sum[PIXELS];
  slide(sum, in, weights, row, column, checked);
  const int first = base + (row * SLIDE_WIDTH + column) * 16;
#pragma unroll
  for (int p = 0; p < PIXELS; p++) {
    if (checked && column + p >= SLIDE_WIDTH) continue;
    float16 v = sum[p];
#define LOAD_CHANNEL(array) load16(block, array)
#define LOAD_TENSOR(array) load16(p, array + first)
    EPILOGUE
    store16(v, p, out + first);
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, __global const float *restrict in,
    __global const float *restrict weights PARAMETERS) {
  const int row = get_global_id(1), map = get_global_id(2), block = map % CHANNEL_BLOCKS;
  in += IN_OFFSET + (map / CHANNEL_BLOCKS) * IN_BATCH + block * IN_BLOCK;
  weights += block * KERNEL_HEIGHT * KERNEL_WIDTH * 16;
  const int base = map * OUT_BLOCK;
  const int first = get_global_id(0) * SPAN;
  for (int t = first; t < min(first + SPAN, TILES); t++) {
    DISPATCH
  }
}
