"""PyTorch modules and .pt2 files, through torch.export."""
