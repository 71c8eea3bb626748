import pytest

from seer.errors import InvalidInput
from seer.rollout.controller_config import ControllerConfig, check_fits, check_group
from seer.types import GroupSpec
from support.model_instance import make_info

SPEC = GroupSpec(group_id=0, group_size=1, num_prompt_tokens=10, max_tokens=8)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("policy", "fastest"),
        ("chunk_size", 0),
        ("num_host_slots", -1),
        ("num_disk_slots", -1),
    ],
)
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    """Each with the value."""
    with pytest.raises(InvalidInput, match=f"{field}: got {value!r}"):
        ControllerConfig(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["group_size", "num_prompt_tokens", "max_tokens"])
def test_a_malformed_group_is_refused(field: str) -> None:
    """Counts start at 1."""
    spec = {"group_id": 0, "group_size": 1, "num_prompt_tokens": 1, "max_tokens": 1, field: 0}
    with pytest.raises(InvalidInput, match=f"{field}: got 0"):
        check_group(GroupSpec(**spec), ControllerConfig())


def test_a_request_must_fit_to_the_last_block() -> None:
    """9 prompt tokens in 3 blocks (2 shared), 17 covered at the end: 3 more."""
    check_fits(SPEC, make_info(6))
    with pytest.raises(InvalidInput, match="kv_tokens: got 20; allowed: at least 24"):
        check_fits(SPEC, make_info(5))


def test_a_request_must_fit_the_context() -> None:
    """Prompt and output together."""
    check_fits(SPEC, make_info(6, max_context=18))
    with pytest.raises(InvalidInput, match="max_tokens: got 8; allowed: at most 7"):
        check_fits(SPEC, make_info(6, max_context=17))
