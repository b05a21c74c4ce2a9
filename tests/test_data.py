import pytest
import torch
from torch import nn

from m05.data import (
    calibration_batches,
    evaluate,
    make_loader,
    synthetic_images,
    train_tiny_net,
    trained_tiny_net,
)
from m05.models import example_inputs
from m05.pt2e import export_module, get_xnnpack_quantizer, prepare_pt2e


def test_calibration_batches_is_an_iterator_of_tuples_of_n_samples_in_all():
    (x,) = next(calibration_batches(64, seed=9))
    assert x.shape == (64, 3, 16, 16)
    assert x.dtype == torch.float32
    assert sum(len(x) for (x,) in calibration_batches(200, seed=9)) == 200
    batches = calibration_batches(128, seed=1)
    assert len(list(batches)) == 2
    assert list(batches) == []  # spent, as an iterator is


def test_equal_seeds_give_equal_data_and_other_seeds_other_data():
    (a,), (b,), (c,) = (next(calibration_batches(64, seed=s)) for s in (9, 9, 10))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_a_loader_yields_labelled_samples():
    x, y = next(iter(make_loader(n=32, seed=2)))
    assert x.shape == (32, 3, 16, 16)
    assert y.shape == (32,)
    assert set(torch.cat([y for _, y in make_loader()]).tolist()) == set(range(10))
    assert sum(len(y) for _, y in make_loader()) == 1024
    first, again = (torch.cat([y for _, y in make_loader(256, shuffle=True)]) for _ in range(2))
    assert sorted(first.tolist()) == sorted(again.tolist())


class AlwaysZero(nn.Module):
    def forward(self, x):
        return torch.nn.functional.one_hot(torch.zeros(len(x), dtype=torch.long), 3).float()


def test_accuracy_by_hand():
    loader = [(torch.zeros(3, 1), torch.tensor([0, 1, 0])), (torch.zeros(1, 1), torch.tensor([2]))]
    assert evaluate(AlwaysZero(), loader) == 0.5  # two of four, batches of unequal size


def test_evaluate_takes_eager_and_exported_models_and_leaves_them_alone():
    model = trained_tiny_net()
    exported = export_module(model, example_inputs())
    loader = make_loader(256)
    assert evaluate(model, loader) == evaluate(exported, loader)
    model.train()
    model.stem.eval()
    modes = [m.training for m in model.modules()]
    assert evaluate(model, loader) == evaluate(exported, loader)
    assert [m.training for m in model.modules()] == modes


def test_nothing_to_evaluate_or_to_sample_is_an_error():
    with pytest.raises(ValueError, match="no samples"):
        evaluate(AlwaysZero(), [])
    with pytest.raises(ValueError, match="asked for 0 samples"):
        calibration_batches(0, seed=1)
    with pytest.raises(ValueError, match="batch_size=0"):
        calibration_batches(8, seed=1, batch_size=0)


def test_the_shipped_weights_are_the_same_on_each_call_and_not_shared():
    first, second = trained_tiny_net(), trained_tiny_net()
    assert not first.training
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    with torch.no_grad():
        first.fc.weight.zero_()
    assert second.fc.weight.abs().sum() > 0


def test_the_recipe_trains_a_net_as_good_as_the_shipped_one():
    # Not the same weights on every processor: training amplifies the order of sums.
    loader = make_loader(1024)
    assert evaluate(train_tiny_net(), loader) == pytest.approx(
        evaluate(trained_tiny_net(), loader), abs=0.05
    )


def test_equal_seeds_train_equal_nets():
    first, second, other = (train_tiny_net(seed=s).state_dict() for s in (5, 5, 6))
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert not torch.equal(first["fc.weight"], other["fc.weight"])


def test_training_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    train_tiny_net(seed=3)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("seed", [0, 1, 2, 9])
def test_evaluation_never_sees_calibration_or_training_images(seed):
    x = torch.cat([x for x, _ in make_loader(256, seed=seed)]).flatten(1)
    for other in (0, 1, 2, 9):
        (y,) = next(calibration_batches(256, seed=other, batch_size=256))
        assert torch.cdist(x, y.flatten(1)).min() > 20  # two draws of one image would be at 0


class Returns(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, x):
        return self.value


@pytest.mark.parametrize(
    ("logits", "labels", "text"),
    [
        (torch.ones(4, 3), torch.ones(4, 1), r"logits \(4, 3\) and labels \(4, 1\)"),
        (torch.ones(4, 3), torch.tensor(1), r"labels \(\)"),
        (torch.ones(4, 3, 2, 2), torch.ones(4, 2, 2), r"logits \(4, 3, 2, 2\)"),
        (torch.ones(4, 1), torch.ones(4), r"logits \(4, 1\)"),
        (torch.full((4, 3), float("nan")), torch.ones(4), "not finite"),
    ],
)
def test_what_is_no_classification_is_refused(logits, labels, text):
    with pytest.raises(ValueError, match=text):
        evaluate(Returns(logits), [(torch.ones(4, 1), labels)])


def test_evaluating_a_prepared_graph_does_not_calibrate_it():
    exported = export_module(trained_tiny_net(), example_inputs())
    prepared = prepare_pt2e(exported, get_xnnpack_quantizer()[0])
    before = {name: value.clone() for name, value in prepared.state_dict().items()}
    evaluate(prepared, make_loader(128))
    for name, value in prepared.state_dict().items():
        assert torch.equal(value, before[name])


def test_the_readers_default_dtype_does_not_change_the_task():
    expected, weights = synthetic_images(8, seed=3)[0], trained_tiny_net().state_dict()
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(synthetic_images(8, seed=3)[0], expected)
        for name, value in trained_tiny_net().state_dict().items():
            assert value.dtype == weights[name].dtype
            assert torch.equal(value, weights[name])
    finally:
        torch.set_default_dtype(torch.float32)


def test_several_outputs_are_refused_with_the_next_step():
    with pytest.raises(TypeError, match=r"got a model output of type tuple .* select the logits"):
        evaluate(Returns((torch.ones(4, 3),)), [(torch.ones(4, 1), torch.ones(4))])
