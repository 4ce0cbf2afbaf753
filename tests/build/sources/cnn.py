class Block(nn.Module):
    """block1, block2, block3"""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, channels, 3, padding=1)
        self.bn = nn.BatchNorm2d(channels)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(F.relu(self.bn(self.conv(x))))


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block1 = Block(3, 32)
        self.block2 = Block(32, 64)
        self.block3 = Block(64, 128)
        self.fc1 = nn.Linear(2048, 256)
        self.fc2 = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.block1(x)
        x = self.block2(x)
        x = self.block3(x)
        return self.fc2(F.relu(self.fc1(x.flatten(1)))).softmax(-1)
