"""Every file that is fetched: its name, its sha256, and where the internet has it.

The ``.npz`` files are the citation networks in plain arrays; nobody serves them, they are read
where they lie. The raw Pubmed files have no sums here: they are judged by what they hold, as
`CONTENT` is of all three networks, in whatever form they come.
"""

from __future__ import annotations

from metricmix.datasets.files import DataFile

__all__ = ["CONTENT", "MNIST", "PARTS", "PLAIN", "RAW"]

MNIST_URLS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
PLANETOID_URL = "https://github.com/kimiyoung/planetoid/raw/master/data/"
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")

SUMS = """
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6  t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6  t10k-labels-idx1-ubyte.gz
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609  train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c  train-labels-idx1-ubyte.gz
00f398fa8736321310a54fc5be13545c0916cdc4757e0800e65f1b8bebc08d4b  citeseer.npz
686330a6f75f8ad9bc627cb4216769891646e8bdcb9057312cb76c4d1bf9798d  cora.npz
5585b4a91b2b5bf52ce5df97ef93ebb181c8b486d320dc0aa7d9b247de492ee0  pubmed.npz
2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668  ind.citeseer.allx
f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95  ind.citeseer.ally
d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7  ind.citeseer.graph
2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4  ind.citeseer.test.index
539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21  ind.citeseer.tx
55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce  ind.citeseer.ty
d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6  ind.citeseer.x
8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924  ind.citeseer.y
9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543  ind.cora.allx
2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71  ind.cora.ally
58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d  ind.cora.graph
297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875  ind.cora.test.index
b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a  ind.cora.tx
41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad  ind.cora.ty
23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab  ind.cora.x
94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1  ind.cora.y
"""
"""As sha256sum writes them."""
SHA256 = {name: found for found, name in map(str.split, SUMS.strip().splitlines())}

MNIST = tuple(
    DataFile(name, "mnist", SHA256[name], tuple(url + name for url in MNIST_URLS))
    for name in (
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    )
)
NETWORKS = ("citeseer", "cora", "pubmed")
PLAIN = {name: DataFile(f"{name}.npz", sha256=SHA256[f"{name}.npz"]) for name in NETWORKS}
RAW = {
    name: tuple(
        DataFile(file, "planetoid", SHA256.get(file), (PLANETOID_URL + file,))
        for file in (f"ind.{name}.{part}" for part in PARTS)
    )
    for name in NETWORKS
}
CONTENT = {
    "citeseer": "3262dc8d36a1fea32251f4d7b794bf340d7b5633709db9c9e55740d9d400aadb",
    "cora": "2e734e40f683f22cc3dfcf0dbccbe11e69fa13ad7c8b779ff28027fe4d2fd366",
    "pubmed": "c49718c2ecc0a20fe98752a47b758e049d21e3114037945944211f2d4e3a40f9",
}
"""sha256 of a network's arrays, as :func:`~metricmix.datasets.network.content_sum` takes it."""
