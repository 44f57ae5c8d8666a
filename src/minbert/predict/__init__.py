"""Using a trained variant: predict new sentences, or write the course's submission files."""
