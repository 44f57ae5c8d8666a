"""Tests that look at pages with headless Chromium."""
