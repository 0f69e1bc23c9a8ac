"""Speed against what people would use instead, and of single parts."""
