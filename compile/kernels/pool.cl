// Maximum or mean over a window, in blocked layout. A work-item computes a row of 16 channels.

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, __global const float *restrict in PARAMETERS) {
  const int row = get_global_id(0), map = get_global_id(1), block = map % CHANNEL_BLOCKS;
  in += map * IN_HEIGHT * IN_WIDTH * 16;
  const int top = row * STRIDE_Y - PAD_TOP;
  const int bottom = min(top + KERNEL_HEIGHT, IN_HEIGHT), from = max(top, 0);
  for (int column = 0; column < OUT_WIDTH; column++) {
    const int left = column * STRIDE_X - PAD_LEFT;
    const int right = min(left + KERNEL_WIDTH, IN_WIDTH), start = max(left, 0);
    float16 v = (float16)(FIRST);
    for (int y = from; y < bottom; y++)
      for (int x = start; x < right; x++) v = COMBINE(v, load16(y * IN_WIDTH + x, in));
    v = v * SCALE;
    const int at = (map * OUT_HEIGHT + row) * OUT_WIDTH * 16 + column * 16;
#define LOAD_CHANNEL(array) load16(block, array)
#define LOAD_TENSOR(array) load16(0, array + at)
    EPILOGUE
    store16(v, 0, out + at);
  }
}
