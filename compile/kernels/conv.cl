// Direct convolution. A work-item computes SPAN tiles of one output row; a tile is PIXELS
// neighbouring outputs of BLOCKS x 16 channels, all of it in registers. Weights come as vectors
// of 16 output channels, inputs as scalars that multiply them.

#if IN_BYTES
// Bytes are made floats for one row of the kernel at a time: what a tile reads of up to 16 channels.
#define ROW_SPACE
#define ROW_CHANNEL ROW_VALUES
#define ROW_AT(first, kx) ((kx) * DILATION_X)

INLINE void read_pixels(float *to, __global const uchar *from) {
  struct __attribute__((packed)) Bytes {
    uchar16 v;
  };
  struct __attribute__((packed)) Floats {
    float16 v;
  };
  const uchar16 bytes = ((__global const struct Bytes *)from)->v;
  ((struct Floats *)to)->v = convert_float16(bytes) + IN_SHIFT;
}

// The values of a row, shifted; those of the padding are zero.
INLINE void read_row(float *row, __global const uchar *in, const int channel, const int channels,
                     const int column) {
  const int first = column * STRIDE_X - PAD_LEFT;
  const int from = max(0, -first), to = min(ROW_VALUES, IN_WIDTH - first);
#pragma unroll 1
  for (int c = 0; c < channels; c++) {
    float *out = row + c * ROW_VALUES;
    __global const uchar *at = in + IN_PLANE(channel + c) + first;
    for (int i = 0; i < from; i++) out[i] = 0.0f;
    for (int i = to; i < ROW_VALUES; i++) out[i] = 0.0f;
    int i = from;
    for (; i + 16 <= to; i += 16) read_pixels(out + i, at + i);
    if (i < to && to - from >= 16) {
      // The last vector overlaps the one before; it does not reach beyond the row.
      read_pixels(out + to - 16, at + to - 16);
      continue;
    }
    for (; i < to; i++) out[i] = (float)at[i] + IN_SHIFT;
  }
}
#else
#define ROW_SPACE __global
#define ROW_CHANNEL IN_CHANNEL
#define ROW_AT(first, kx) ((first) * IN_PIXEL)
#endif

// One kernel column over `channels` input channels. The inputs' addresses are one pointer and
// constants: computed index by index they would cost as much as the arithmetic.
INLINE void accumulate(float16 sum[BLOCKS][PIXELS], ROW_SPACE const float *restrict in,
                       __global const float *restrict weights, const int channels,
                       const int column, const int kx, const int checked) {
  const int first = column * STRIDE_X - PAD_LEFT + kx * DILATION_X;
  ROW_SPACE const float *restrict at = in + ROW_AT(first, kx);
#pragma unroll CHANNEL_UNROLL
  for (int c = 0; c < channels; c++) {
    float16 w[BLOCKS];
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
      w[b] = load16(0, weights + (kx * channels + c) * WEIGHT_STEP + b * WEIGHT_BLOCK);
#pragma unroll
    for (int p = 0; p < PIXELS; p++) {
      const int x = first + p * STRIDE_X;
      if (checked && (x < 0 || x >= IN_WIDTH || column + p >= OUT_WIDTH)) continue;
      const float16 a = (float16)(at[p * STRIDE_X * IN_PIXEL + c * ROW_CHANNEL]);
#pragma unroll
      for (int b = 0; b < BLOCKS; b++) sum[b][p] = fma(a, w[b], sum[b][p]);
    }
  }
}

// One kernel row. The columns stay a loop where nothing is checked: unrolled, the compiler would
// keep the inputs that neighbouring columns share in registers and spill the sums.
INLINE void accumulate_row(float16 sum[BLOCKS][PIXELS], ROW_SPACE const float *restrict in,
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

// The kernel's rows over the `channels` of an input block.
INLINE void accumulate_rows(float16 sum[BLOCKS][PIXELS], __global const INPUT *restrict in,
                            __global const float *restrict weights, const int block_in,
                            const int channels, const int row, const int column,
                            const int checked) {
  for (int ky = 0; ky < KERNEL_HEIGHT; ky++) {
    const int y = row * STRIDE_Y - PAD_TOP + ky * DILATION_Y;
    if (y < 0 || y >= IN_HEIGHT) continue;
    __global const float *restrict at =
        weights + (block_in * KERNEL_HEIGHT * 16 + ky * channels) * KERNEL_WIDTH * WEIGHT_STEP;
#if IN_BYTES
    float values[ROW_CHANNELS * ROW_VALUES];
    read_row(values, in + y * IN_WIDTH, block_in * 16, channels, column);
    // The padding is there.
    accumulate_row(sum, values, at, channels, column, 0);
#else
    accumulate_row(sum, in + block_in * IN_BLOCK + y * IN_WIDTH * IN_PIXEL, at, channels, column,
                   checked);
#endif
  }
}

INLINE void tile(
    __global float *restrict out, __global const INPUT *restrict in,
    __global const float *restrict weights PARAMETERS, const int base, const int row,
    const int block, const int column, const int checked) {
  float16 sum[BLOCKS][PIXELS];
#pragma unroll
  for (int b = 0; b < BLOCKS; b++)
#pragma unroll
    for (int p = 0; p < PIXELS; p++) sum[b][p] = (float16)(0.0f);

  for (int block_in = 0; block_in < IN_BLOCKS; block_in++)
    accumulate_rows(sum, in, weights, block_in, 16, row, column, checked);
#if IN_TAIL
  accumulate_rows(sum, in, weights, IN_BLOCKS, IN_TAIL, row, column, checked);
#endif

  const int place = block / OUT_BLOCKS, channels = block % OUT_BLOCKS;
  const int first = base + channels * OUT_BLOCK + OUT_PIXEL_AT(place, row, column) * OUT_PIXEL;
#pragma unroll
  for (int b = 0; b < BLOCKS; b++) {
    const int lanes = OUT_LANES(channels + b);
#if OUT_CHANNEL != 1
    union {
      float16 vector;
      float values[16];
    } pixels[PIXELS];
#endif
#pragma unroll
    for (int p = 0; p < PIXELS; p++) {
      if (checked && column + p >= OUT_WIDTH) continue;
      // One pointer and constants, as for the inputs.
      const int at = b * OUT_BLOCK + p * OUT_STEP;
      float16 v = sum[b][p];
#define LOAD_CHANNEL(array) load16(b, array + channels * 16)
#define LOAD_TENSOR(array) load_lanes(array + first + at, lanes)
      EPILOGUE
#if OUT_CHANNEL == 1
      store_lanes(v, out + first + at, lanes);
#else
      pixels[p].vector = v;
#endif
    }
#if OUT_CHANNEL != 1
    // Neighbouring pixels lie together. A loop, or there would be 16 stores for each of them.
#pragma unroll 1
    for (int i = 0; i < min(lanes, 16); i++) {
#pragma unroll
      for (int p = 0; p < PIXELS; p++) {
        if (checked && column + p >= OUT_WIDTH) continue;
        out[first + b * OUT_BLOCK + i * OUT_CHANNEL + p * OUT_STEP] = pixels[p].values[i];
      }
    }
#endif
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, INPUTS, __global const float *restrict weights PARAMETERS) {
  const int batch = get_global_id(1) / OUT_HEIGHT, row = get_global_id(1) % OUT_HEIGHT;
  const int block = get_global_id(2) * BLOCKS, group = block % OUT_BLOCKS / GROUP_OUT_BLOCKS;
  __global const INPUT *in = INPUT_OF(group);
  in += IN_OFFSET + batch * IN_BATCH + group * GROUP_IN_OFFSET;
  weights += block * WEIGHT_BLOCK + batch * WEIGHT_BATCH;
  const int base = batch * OUT_BATCH;
  const int first = get_global_id(0) * SPAN;
  for (int t = first; t < min(first + SPAN, TILES); t++) {
    DISPATCH
  }
}
