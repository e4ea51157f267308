"""Studies: trainings and comparisons that answer one question together, done part by part."""
