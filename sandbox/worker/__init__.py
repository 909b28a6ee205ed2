"""The worker half: runs references and candidates. Standard library, torch and triton only."""
