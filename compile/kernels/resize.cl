// A blocked map at another size: each output the nearest input, or between two of them in each
// direction. A work-item computes BAND rows of 16 channels.

INLINE float16 between(const float16 a, const float16 b, const float weight) {
  return fma(b, (float16)(weight), a * (1.0f - weight));
}

#if OUT_CHANNEL != 1
// Neighbouring pixels of a channel lie together: 16 pixels, or the last of a row, at once.
INLINE void store_pixels(const float16 pixels[16], __global float *to, const int count,
                         const int lanes) {
  __private const float *values = (__private const float *)pixels;
#pragma unroll 1
  for (int i = 0; i < min(lanes, 16); i++, to += OUT_CHANNEL)
    for (int p = 0; p < count; p++) to[p] = values[p * 16 + i];
}
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, __global const float *restrict in,
    __global const float *restrict places PARAMETERS) {
  const int map = get_global_id(1), block = map % CHANNEL_BLOCKS, from = get_global_id(0) * BAND;
  const int lanes = OUT_LANES(block);
  const int base = map / CHANNEL_BLOCKS * OUT_BATCH + block * OUT_BLOCK;
  __global const float *columns = places + 2 * OUT_HEIGHT;
  in += map * IN_HEIGHT * IN_WIDTH * 16;
  for (int row = from; row < min(from + BAND, OUT_HEIGHT); row++) {
    const int y = (int)places[2 * row];
    __global const float *upper = in + y * IN_WIDTH * 16;
#if BLEND_ROWS
    __global const float *lower = in + min(y + 1, IN_HEIGHT - 1) * IN_WIDTH * 16;
    const float down = places[2 * row + 1];
#define COLUMN(x) between(load16(x, upper), load16(x, lower), down)
#else
#define COLUMN(x) load16(x, upper)
#endif
    // The inputs on both sides, until an output lies between others.
    int last = -1;
    float16 left, right;
#if OUT_CHANNEL != 1
    float16 pixels[16];
#endif
    for (int column = 0; column < OUT_WIDTH; column++) {
      const int x = (int)columns[2 * column];
      if (x != last) {
        left = COLUMN(x);
#if BLEND_COLUMNS
        right = COLUMN(min(x + 1, IN_WIDTH - 1));
#endif
        last = x;
      }
#if BLEND_COLUMNS
      float16 v = between(left, right, columns[2 * column + 1]);
#else
      float16 v = left;
#endif
      const int at = base + (row * OUT_WIDTH + column) * OUT_PIXEL;
#define LOAD_CHANNEL(array) load16(block, array)
#define LOAD_TENSOR(array) load_lanes(array + at, lanes)
      EPILOGUE
#if OUT_CHANNEL == 1
      store16(v, 0, out + at);
#else
      const int place = column % 16;
      pixels[place] = v;
      if (place == 15) store_pixels(pixels, out + at - 15, 16, lanes);
      else if (column == OUT_WIDTH - 1) store_pixels(pixels, out + at - place, place + 1, lanes);
#endif
    }
  }
}
