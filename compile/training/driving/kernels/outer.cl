// out (CHUNKS, CO, CI): products of g (M, CO) and x (M, CI) summed over each chunk of SPAN rows. A
// work-item computes ROWS x LANES of one chunk.
KERNEL void NAME(OUT out, IN g, IN x) {
  const int column = get_global_id(0) * LANES, row = get_global_id(1) * ROWS;
  const int chunk = get_global_id(2), first = chunk * SPAN, last = min(first + SPAN, M);
  float16 sum[ROWS][BLOCKS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < BLOCKS; v++) sum[r][v] = (float16)(0.0f);
  x += column;
  g += row;
#pragma unroll 2
  for (int m = first; m < last; m++) {
    float16 w[BLOCKS];
#pragma unroll
    for (int v = 0; v < BLOCKS; v++) w[v] = vload16(v, x + m * CI);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const float16 y = (float16)(g[m * CO + r]);
#pragma unroll
      for (int v = 0; v < BLOCKS; v++) sum[r][v] = fma(y, w[v], sum[r][v]);
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < BLOCKS; v++)
      vstore16(sum[r][v], v, out + (chunk * CO + row + r) * CI + column);
}
