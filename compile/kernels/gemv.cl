// Vector times matrix: BLOCKS x 16 outputs a work-item, weights packed in blocks of 16 outputs.
// Several independent products share one launch; PRODUCT_n is the n-th.

INLINE void multiply(float16 sum[MAX_BLOCKS], __global const float *restrict in,
                     __global const float *restrict weights, const int length, const int blocks) {
  // Four sums a block: one alone would wait for the one before it.
  float16 parts[MAX_BLOCKS][4];
#pragma unroll
  for (int b = 0; b < blocks; b++)
#pragma unroll
    for (int i = 0; i < 4; i++) parts[b][i] = (float16)(0.0f);
  int k = 0;
  for (; k + 4 <= length; k += 4) {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int b = 0; b < blocks; b++)
        parts[b][i] =
            fma((float16)(in[k + i]), load16(k + i, weights + b * length * 16), parts[b][i]);
  }
  for (; k < length; k++)
#pragma unroll
    for (int b = 0; b < blocks; b++)
      parts[b][0] = fma((float16)(in[k]), load16(k, weights + b * length * 16), parts[b][0]);
#pragma unroll
  for (int b = 0; b < blocks; b++)
    sum[b] = (parts[b][0] + parts[b][1]) + (parts[b][2] + parts[b][3]);
}
