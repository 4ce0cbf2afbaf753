class ResidualBlock(nn.Module):
    """layer1.0, layer1.1, layer2.0, layer2.1"""

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Identity()
        if in_channels != channels:
            self.shortcut = nn.Conv2d(in_channels, channels, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        conv2 = self.conv2(F.relu(self.bn1(self.conv1(x))))
        return F.relu(self.bn2(conv2) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 7, stride=2, padding=3)
        self.bn = nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(ResidualBlock(64, 64), ResidualBlock(64, 64))
        self.layer2 = nn.Sequential(ResidualBlock(64, 128, stride=2), ResidualBlock(128, 128))
        self.head = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(F.relu(self.bn(self.conv(x))))
        x = self.layer1(x)
        x = self.layer2(x)
        return self.head(x.mean((2, 3))).softmax(-1)
