"""A GPU is known by its bare name, and every description that comes with mxtune is complete."""

import pytest

from mxtune.configs.devices import bare_arch, known_devices, load_device
from mxtune.configs.errors import ConfigError


# BL-042: the runtime's name carries features
@pytest.mark.parametrize(
    ("arch", "bare"),
    [
        ("gfx950", "gfx950"),
        ("gfx950:sramecc+:xnack-", "gfx950"),
        ("gfx950:sramecc+:xnack+", "gfx950"),
        (" GFX950 ", "gfx950"),
        ("sm_90", "sm_90"),
        ("", ""),
    ],
)
def test_an_architecture_is_named_without_its_features(arch: str, bare: str) -> None:
    assert bare_arch(arch) == bare


def test_a_name_with_features_loads_the_same_description() -> None:
    assert load_device("gfx950:sramecc+:xnack-") == load_device("gfx950")


def test_an_unknown_architecture_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        load_device("gfx942:xnack-")
    assert str(caught.value) == "no device is called 'gfx942:xnack-': one of gfx950, sm_90"


@pytest.mark.parametrize("name", ["", "../devices/gfx950", "gfx950.yaml", "\0"])
def test_a_name_is_not_a_path(name: str) -> None:
    with pytest.raises(ConfigError, match="no device is called"):
        load_device(name)


@pytest.mark.parametrize("arch", known_devices())
def test_every_bundled_device_has_positive_figures(arch: str) -> None:
    device = load_device(arch)
    assert device.arch == arch
    assert device.backend in ("hip", "cuda")
    assert device.warp_size in (32, 64)
    sizes = (device.compute_units, device.lds_bytes, device.l2_bytes, device.flush_bytes)
    rates = (device.clock_ghz, device.bandwidth_gbs, device.fp4_tflops)
    assert min(*sizes, *rates, device.launch_us, device.dependent_us) > 0
    assert all(isinstance(size, int) for size in sizes)


@pytest.mark.parametrize("arch", known_devices())
def test_the_flush_is_larger_than_the_cache(arch: str) -> None:
    device = load_device(arch)
    assert device.flush_bytes >= 2 * device.l2_bytes


def test_the_figures_of_the_mi355x_are_the_published_ones() -> None:
    device = load_device("gfx950")
    assert str(device) == "AMD Instinct MI355X (gfx950, 256 CUs)"
    assert (device.lds_bytes, device.bandwidth_gbs, device.scaled_mma) == (163840, 8000, True)
