// softmax(scale * Q K^T + mask) V without the matrix of scores. A work-item computes 16 x BLOCKS
// rows of one head; a vector holds 16 queries, so that keys and values are read where they lie and no
// sum goes across lanes. Keys are taken CHUNK at a time: when a larger score comes, what was summed
// before is scaled down (Milakov and Gimelshein, Online normalizer calculation for softmax).

// sum[t] += row i times element (i, t), for `count` rows and `tile` sums.
INLINE void accumulate(float16 sum[TILE][BLOCKS], const float16 *restrict rows,
                       __global const float *restrict at, const int count, const int tile,
                       const int step, const int stride) {
#pragma unroll 1
  for (int i = 0; i < count; i++) {
#pragma unroll
    for (int t = 0; t < tile; t++) {
      const float16 a = (float16)(at[i * step + t * stride]);
#pragma unroll
      for (int b = 0; b < BLOCKS; b++) sum[t][b] = fma(a, rows[i * BLOCKS + b], sum[t][b]);
    }
  }
}

// The scores of `tile` keys, and the largest so far.
INLINE void score(float16 *restrict scores, float16 most[BLOCKS], const float16 *restrict query,
                  __global const float *restrict keys, __global const float *restrict mask,
                  const int lanes, const int tile) {
  float16 sum[TILE][BLOCKS];
#pragma unroll
  for (int t = 0; t < tile; t++)
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) sum[t][b] = (float16)(0.0f);
  for (int c = 0; c < WIDTH; c += KEY_RUN)
    accumulate(sum, query + c * BLOCKS, keys + c / 16 * KEY_BLOCK, min(KEY_RUN, WIDTH - c), tile,
               KEY_CHANNEL, KEY_POSITION);
#pragma unroll
  for (int t = 0; t < tile; t++)
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
      float16 v = sum[t][b];
      MASK
      most[b] = max(most[b], v);
      scores[t * BLOCKS + b] = v;
    }
}

// result = factor * result + the weights of `count` keys times `tile` channels of their values.
INLINE void weigh(float16 *restrict result, const float16 factor[BLOCKS],
                  const float16 *restrict weights, __global const float *restrict values,
                  const int count, const int tile) {
  float16 sum[TILE][BLOCKS];
#pragma unroll
  for (int t = 0; t < tile; t++)
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) sum[t][b] = factor[b] * result[t * BLOCKS + b];
  accumulate(sum, weights, values, count, tile, VALUE_POSITION, VALUE_CHANNEL);
#pragma unroll
  for (int t = 0; t < tile; t++)
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) result[t * BLOCKS + b] = sum[t][b];
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, INPUTS) {
  const int first = get_global_id(0) * BLOCKS * 16, head = get_global_id(1);
  const int lanes = QUERIES - first;
  __global const float *restrict queries = QUERY_OF(head);
  __global const float *restrict keys = KEY_OF(head);
  __global const float *restrict values = VALUE_OF(head);
  __global const float *restrict mask = MASK_OF(head) + first * MASK_QUERY;
  float16 query[WIDTH * BLOCKS], result[VALUE_WIDTH * BLOCKS], scores[CHUNK * BLOCKS];
  // Lanes beyond the last query repeat it.
  for (int i = 0; i < BLOCKS * 16; i++) {
    __global const float *at = queries + (first + min(i, lanes - 1)) * QUERY_POSITION;
    for (int c = 0; c < WIDTH; c++)
      ((float *)query)[c * BLOCKS * 16 + i] =
          SCALE * at[c / 16 * QUERY_BLOCK + c % 16 * QUERY_CHANNEL];
  }
  for (int i = 0; i < VALUE_WIDTH * BLOCKS; i++) result[i] = (float16)(0.0f);
  float16 most[BLOCKS], total[BLOCKS], factor[BLOCKS];
  for (int b = 0; b < BLOCKS; b++) {
    most[b] = (float16)(-INFINITY);
    total[b] = (float16)(0.0f);
  }

  for (int start = 0; start < KEYS; start += CHUNK) {
    const int count = min(CHUNK, KEYS - start);
    // Where all keys so far are masked by -infinity, differences are numbers still.
    for (int b = 0; b < BLOCKS; b++) factor[b] = max(most[b], -FLT_MAX);
    int j = 0;
    for (; j + TILE <= count; j += TILE)
      score(scores + j * BLOCKS, most, query, keys + (start + j) * KEY_POSITION,
            mask + (start + j) * MASK_KEY, lanes, TILE);
#if KEYS % TILE
    if (j < count)
      score(scores + j * BLOCKS, most, query, keys + (start + j) * KEY_POSITION,
            mask + (start + j) * MASK_KEY, lanes, KEYS % TILE);
#endif
    for (int b = 0; b < BLOCKS; b++) {
      const float16 base = max(most[b], -FLT_MAX);
      factor[b] = exponential(factor[b] - base);
      total[b] *= factor[b];
      for (j = 0; j < count; j++) {
        const float16 e = exponential(scores[j * BLOCKS + b] - base);
        scores[j * BLOCKS + b] = e;
        total[b] += e;
      }
    }
    __global const float *restrict at = values + start * VALUE_POSITION;
    int c = 0;
    for (; c + TILE <= VALUE_WIDTH; c += TILE)
      weigh(result + c * BLOCKS, factor, scores,
            at + c / 16 * VALUE_BLOCK + c % 16 * VALUE_CHANNEL, count, TILE);
#if VALUE_WIDTH % TILE
    weigh(result + c * BLOCKS, factor, scores, at + c / 16 * VALUE_BLOCK + c % 16 * VALUE_CHANNEL,
          count, VALUE_WIDTH % TILE);
#endif
  }

  // A row whose keys are all masked by -infinity is NaN, as is one with an infinite score.
  for (int b = 0; b < BLOCKS; b++) factor[b] = 1.0f / (total[b] + (most[b] - most[b]));
  for (int i = 0; i < VALUE_WIDTH * BLOCKS; i++) result[i] *= factor[i % BLOCKS];
  out += RESULT_AT(head);
  for (int i = 0; i < min(BLOCKS * 16, lanes); i++)
    for (int c = 0; c < VALUE_WIDTH; c++)
      out[(first + i) * RESULT_POSITION + c / 16 * RESULT_BLOCK + c % 16 * RESULT_CHANNEL] =
          ((const float *)result)[c * BLOCKS * 16 + i];
}
