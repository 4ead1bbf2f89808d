"""Groups on a whole service, on both stores: whatever crashes, each message is settled once."""

from hypothesis import Phase, settings

from tests.messaging.groups.stores_of_groups import ByKey, ByKeyOnLevelDB, Unordered
from tests.scale import scaled

# A failing example is not shrunk: each step may recover a service, which takes minutes.
SETTINGS = settings(
    max_examples=scaled(8), stateful_step_count=30, phases=[Phase.explicit, Phase.generate]
)

TestUnordered = Unordered.TestCase
TestUnordered.settings = SETTINGS

TestByKey = ByKey.TestCase
TestByKey.settings = SETTINGS

TestByKeyOnLevelDB = ByKeyOnLevelDB.TestCase
TestByKeyOnLevelDB.settings = SETTINGS
