// Greedy non-maximum suppression, one work-item per batch and class, and the listing of what it
// kept. The host defines BATCHES, CLASSES, BOXES, LIMIT, ROWS, CENTER, IOU_LIMIT, SCORE_LIMIT.

void corners(__global const float *box, float *low_y, float *low_x, float *high_y, float *high_x) {
#if CENTER
  float half_w = box[2] * 0.5f, half_h = box[3] * 0.5f;
  *low_x = box[0] - half_w;
  *high_x = box[0] + half_w;
  *low_y = box[1] - half_h;
  *high_y = box[1] + half_h;
#else
  *low_y = fmin(box[0], box[2]);
  *high_y = fmax(box[0], box[2]);
  *low_x = fmin(box[1], box[3]);
  *high_x = fmax(box[1], box[3]);
#endif
}

bool overlaps(__global const float *a, __global const float *b) {
  float ay0, ax0, ay1, ax1, by0, bx0, by1, bx1;
  corners(a, &ay0, &ax0, &ay1, &ax1);
  corners(b, &by0, &bx0, &by1, &bx1);
  float height = fmin(ay1, by1) - fmax(ay0, by0);
  float width = fmin(ax1, bx1) - fmax(ax0, bx0);
  if (height <= 0.0f || width <= 0.0f) return false;
  float area_a = (ay1 - ay0) * (ax1 - ax0), area_b = (by1 - by0) * (bx1 - bx0);
  float common = height * width, all = area_a + area_b - common;
  if (area_a <= 0.0f || area_b <= 0.0f || all <= 0.0f) return false;
  return common / all > IOU_LIMIT;
}

// kept: BATCHES x CLASSES x LIMIT box numbers in order of score, -1 after the last one.
// open: BATCHES x CLASSES x BOXES, 1 while a box may still be kept; scratch of this work-item.
__kernel void nms_select(__global float *kept, __global float *open, __global const float *boxes,
                         __global const float *scores) {
  int row = get_global_id(0);
  __global const float *box = boxes + (row / CLASSES) * BOXES * 4;
  __global const float *score = scores + row * BOXES;
  __global float *mine = open + row * BOXES;
  for (int n = 0; n < BOXES; n++) mine[n] = score[n] > SCORE_LIMIT ? 1.0f : 0.0f;
  for (int k = 0; k < LIMIT; k++) {
    int best = -1;
    for (int n = 0; n < BOXES; n++)
      if (mine[n] != 0.0f && (best < 0 || score[n] > score[best])) best = n;
    kept[row * LIMIT + k] = (float)best;
    if (best < 0) continue;
    mine[best] = 0.0f;
    for (int n = 0; n < BOXES; n++)
      if (mine[n] != 0.0f && overlaps(box + best * 4, box + n * 4)) mine[n] = 0.0f;
  }
}

// listed: ROWS x (batch, class, box), in this order; rows of -1 follow where fewer were kept.
__kernel void nms_list(__global float *listed, __global const float *kept) {
  int next = 0;
  for (int row = 0; row < BATCHES * CLASSES; row++)
    for (int k = 0; k < LIMIT && next < ROWS; k++) {
      float box = kept[row * LIMIT + k];
      if (box < 0.0f) break;
      listed[next * 3] = (float)(row / CLASSES);
      listed[next * 3 + 1] = (float)(row % CLASSES);
      listed[next * 3 + 2] = box;
      next++;
    }
  for (int n = next * 3; n < ROWS * 3; n++) listed[n] = -1.0f;
}
