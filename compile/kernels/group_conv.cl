// Direct convolution for devices of many narrow units. A work-group computes 16 channels of
// GROUP x PIXELS outputs: neighbouring work-items take neighbouring pixels, and all share the
// weights, which they bring into local memory together, 16 input channels at a time.

#if IN_BYTES
#define IN_VALUE(in, block, c, pixel) ((float)in[IN_PLANE((block) * 16 + (c)) + (pixel)] + IN_SHIFT)
#else
#define IN_VALUE(in, block, c, pixel) \
  in[(block) * IN_BLOCK + (c) * IN_CHANNEL + (pixel) * IN_PIXEL]
#endif

static inline float4 load_four(__global const float *restrict from, const int lanes) {
  return (float4)(from[0], lanes > 1 ? from[OUT_CHANNEL] : 0.0f,
                  lanes > 2 ? from[2 * OUT_CHANNEL] : 0.0f, lanes > 3 ? from[3 * OUT_CHANNEL] : 0.0f);
}

static inline void store_four(const float4 v, __global float *restrict to, const int lanes) {
  to[0] = v.x;
  if (lanes > 1) to[OUT_CHANNEL] = v.y;
  if (lanes > 2) to[2 * OUT_CHANNEL] = v.z;
  if (lanes > 3) to[3 * OUT_CHANNEL] = v.w;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void NAME(
    __global float *restrict out, __global const INPUT *restrict in,
    __global const float *restrict weights PARAMETERS) {
  __local float4 shared[16][4];
  const int item = get_local_id(0), batch = get_group_id(1), block = get_group_id(2);
  const int first = get_group_id(0) * GROUP * PIXELS + item;
  in += IN_OFFSET + batch * IN_BATCH;
  weights += block * WEIGHT_BLOCK + batch * WEIGHT_BATCH;
  float4 sum[PIXELS][4];
  for (int p = 0; p < PIXELS; p++)
    for (int j = 0; j < 4; j++) sum[p][j] = (float4)(0.0f);

  for (int block_in = 0; block_in < IN_BLOCKS + (IN_TAIL > 0); block_in++) {
    const int channels = block_in < IN_BLOCKS ? 16 : IN_TAIL;
    for (int at = 0; at < KERNEL_HEIGHT * KERNEL_WIDTH; at++) {
      barrier(CLK_LOCAL_MEM_FENCE);
      const int start = block_in * KERNEL_HEIGHT * KERNEL_WIDTH * 16 + at * channels;
      for (int i = item; i < channels * 4; i += GROUP)
        shared[i / 4][i % 4] = vload4(i % 4, weights + (start + i / 4) * WEIGHT_STEP);
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int p = 0; p < PIXELS; p++) {
        const int pixel = first + p * GROUP;
        const int y = pixel / OUT_WIDTH * STRIDE_Y - PAD_TOP + at / KERNEL_WIDTH * DILATION_Y;
        const int x = pixel % OUT_WIDTH * STRIDE_X - PAD_LEFT + at % KERNEL_WIDTH * DILATION_X;
        if (pixel >= OUT_PIXELS || y < 0 || y >= IN_HEIGHT || x < 0 || x >= IN_WIDTH) continue;
        for (int c = 0; c < channels; c++) {
          const float4 a = (float4)(IN_VALUE(in, block_in, c, y * IN_WIDTH + x));
#pragma unroll
          for (int j = 0; j < 4; j++) sum[p][j] = fma(a, shared[c][j], sum[p][j]);
        }
      }
    }
  }

  const int place = block / OUT_BLOCKS, block_out = block % OUT_BLOCKS;
  for (int p = 0; p < PIXELS; p++) {
    const int pixel = first + p * GROUP;
    if (pixel >= OUT_PIXELS) continue;
    const int row = pixel / OUT_WIDTH, column = pixel % OUT_WIDTH;
    for (int j = 0; j < 4; j++) {
      const int lanes = OUT_CHANNELS - block_out * 16 - j * 4;
      if (lanes <= 0) continue;
      const int to = batch * OUT_BATCH + block_out * OUT_BLOCK + j * 4 * OUT_CHANNEL +
                     OUT_PIXEL_AT(place, row, column) * OUT_PIXEL;
      float4 v = sum[p][j];
#define LOAD_CHANNEL(array) vload4(block_out * 4 + j, array)
#define LOAD_TENSOR(array) load_four(array + to, lanes)
      EPILOGUE
      store_four(v, out + to, lanes);
    }
  }
}
