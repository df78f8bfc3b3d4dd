from warploom.formats.base import Format as Format
from warploom.formats.bsr import BSR as BSR
from warploom.formats.cmrs import CMRS as CMRS
from warploom.formats.column_panels import ColumnPanels as ColumnPanels
from warploom.formats.compressed_sell import CompressedSELL as CompressedSELL
from warploom.formats.coo import COO as COO
from warploom.formats.csr import CSR as CSR
from warploom.formats.dasp import DASP as DASP
from warploom.formats.dcsr import DCSR as DCSR
from warploom.formats.ell import ELL as ELL
from warploom.formats.hyb import HYB as HYB
from warploom.formats.packed_csr import PackedCSR as PackedCSR
from warploom.formats.padded_csr import PaddedCSR as PaddedCSR
from warploom.formats.segmented_csr import SegmentedCSR as SegmentedCSR
from warploom.formats.sell import SELL as SELL

def find(name: str) -> type[Format]: ...
def names() -> tuple[str, ...]: ...
