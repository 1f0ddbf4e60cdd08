"""The two steps that are compared: those of models/gpt.cpp and models/resnet50.cpp, operator for operator."""

import dataclasses
import math
from typing import Callable, List

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclasses.dataclass
class Work:
    """A chain of parts, which is what gets checkpointed, and what stands around it."""

    chain: nn.Sequential
    head: Callable  # of the chain's result; not checkpointed, as in `retrace bench`
    make_input: Callable
    loss: Callable
    parameters: List[nn.Parameter]
    keep_ops: List[str]  # what selective checkpointing keeps: matrix products and convolutions


class Block(nn.Module):
    def __init__(self, length, width, heads, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(length, length, dtype=torch.bool), 1))

    def attention(self, h):
        batch, length, width = h.shape
        head_width = width // self.heads
        q, k, v = (
            part.view(batch, length, self.heads, head_width).transpose(1, 2) for part in self.qkv(h).split(width, 2)
        )
        a = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(head_width))
        a = self.dropout(F.softmax(a.masked_fill(self.mask, float("-inf")), -1))
        return (a @ v).transpose(1, 2).reshape(batch, length, width)

    def forward(self, x):
        x = x + self.dropout(self.out(self.attention(self.norm1(x))))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


def gpt():
    batch, length, width, heads, blocks = 4, 256, 384, 6, 8
    chain = nn.Sequential(*(Block(length, width, heads) for _ in range(blocks)))
    x0 = torch.randn(batch, length, width)
    return Work(
        chain=chain,
        head=lambda x: x,
        make_input=lambda: x0.clone().requires_grad_(),
        loss=lambda y: y.square().mean(),
        parameters=list(chain.parameters()),
        keep_ops=["mm", "addmm", "bmm"],
    )


def resnet50():
    # Only this model needs torchvision.
    from torchvision.models import resnet50 as make

    batch, side, classes = 8, 128, 1000
    net = make().train()
    stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool)
    stages = (net.layer1, net.layer2, net.layer3, net.layer4)
    images = torch.randn(batch, 3, side, side)
    labels = torch.randint(classes, (batch,))
    return Work(
        chain=nn.Sequential(stem, *(block for stage in stages for block in stage)),
        head=lambda x: net.fc(torch.flatten(net.avgpool(x), 1)),
        make_input=lambda: images,
        loss=lambda y: F.cross_entropy(y, labels),
        parameters=list(net.parameters()),
        keep_ops=["convolution", "mm", "addmm"],
    )


WORKS = {"gpt": gpt, "resnet50": resnet50}
