"""Statistics: metrics, intervals, paired comparisons and resampling."""
