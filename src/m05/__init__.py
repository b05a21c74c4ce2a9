"""Find out why a PyTorch model lost accuracy after post-training quantization."""

from m05.data import calibration_batches as calibration_batches
from m05.data import evaluate as evaluate
from m05.data import make_loader as make_loader
from m05.data import trained_tiny_net as trained_tiny_net
from m05.graph_utils import qdq_nodes as qdq_nodes
from m05.graph_utils import sqnr as sqnr
from m05.layerwise import layerwise_sqnr as layerwise_sqnr
from m05.models import TinyConvNet as TinyConvNet
from m05.models import example_inputs as example_inputs
from m05.pt2e import convert_pt2e as convert_pt2e
from m05.pt2e import export_module as export_module
from m05.pt2e import get_xnnpack_quantizer as get_xnnpack_quantizer
from m05.pt2e import prepare_pt2e as prepare_pt2e
from m05.pt2e import quiet as quiet
from m05.skip import SkipQuantizer as SkipQuantizer
from m05.viz import table as table
from m05.weight_norm import strip_weight_norm as strip_weight_norm
