"""Training kernels of the vision part, written by hand for OpenCL on processors.

Maps are (N, H, W, C) float32 with C a multiple of 16: a vector holds 16 channels of a pixel. Each
work-item computes a large piece by itself and keeps a tile of sums in registers; groups of one
work-item leave the driver's vectoriser nothing to undo.
"""
