"""Is a well-formed manifest also sound? Checked before anything of it reaches a driver.

`parse_manifest` has settled that every field is there and of its type. Here the numbers are
held against each other: every range inside its buffer, every name known, every size bounded. A
manifest that passes cannot make the runtime allocate or loop without bound, nor bind memory that
is not there. What a kernel does with the memory it is given is settled by the pin, not here.
"""

from modeld.manifest import Manifest
from modeld.validation.contract import check_contract
from modeld.validation.identity import check_identity
from modeld.validation.launches import check_launches
from modeld.validation.memory import check_memory


def validate(manifest: Manifest) -> None:
    """Raise ModeldError, one line with the field and its value, for the first thing not sound."""
    check_identity(manifest)
    check_contract(manifest)
    check_memory(manifest)
    check_launches(manifest)
