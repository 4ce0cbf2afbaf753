class TransformerBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(64, 64)
        self.k = nn.Linear(64, 64)
        self.v = nn.Linear(64, 64)
        self.out = nn.Linear(64, 64)
        self.norm1 = nn.LayerNorm(64, eps=1e-6)
        self.ff1 = nn.Linear(64, 256)
        self.ff2 = nn.Linear(256, 64)
        self.norm2 = nn.LayerNorm(64, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).unflatten(-1, (4, 16)).transpose(1, 2)
        k = self.k(x).unflatten(-1, (4, 16)).transpose(1, 2)
        v = self.v(x).unflatten(-1, (4, 16)).transpose(1, 2)
        attn = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = self.norm1(x + self.out(attn.flatten(2)))
        return self.norm2(x + self.ff2(F.relu(self.ff1(x))))
