// The sums of a depthwise convolution: PIXELS neighbouring outputs of 16 channels. `in` is the map
// of these channels, blocked; `weights` are theirs.
INLINE void slide(float16 sum[PIXELS], __global const float *restrict in,
                  __global const float *restrict weights, const int row, const int column,
                  const int checked) {
#pragma unroll
  for (int p = 0; p < PIXELS; p++) sum[p] = (float16)(0.0f);

  for (int ky = 0; ky < KERNEL_HEIGHT; ky++) {
    const int y = row * STRIDE_Y - PAD_TOP + ky * DILATION_Y;
    if (y < 0 || y >= IN_HEIGHT) continue;
    // One pointer and constants: see the direct convolution.
    __global const float *restrict at = in + (y * IN_WIDTH + column * STRIDE_X - PAD_LEFT) * 16;
#pragma unroll
    for (int kx = 0; kx < KERNEL_WIDTH; kx++) {
      const float16 w = load16(ky * KERNEL_WIDTH + kx, weights);
#pragma unroll
      for (int p = 0; p < PIXELS; p++) {
        const int x = (column + p) * STRIDE_X - PAD_LEFT + kx * DILATION_X;
        if (checked && (x < 0 || x >= IN_WIDTH || column + p >= SLIDE_WIDTH)) continue;
        sum[p] = fma(load16(p * STRIDE_X + kx * DILATION_X, at), w, sum[p]);
      }
    }
  }
}
