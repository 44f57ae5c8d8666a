"""Divergences: functions of a loss and two outputs [B, classes] of a head; 0 if they agree."""
