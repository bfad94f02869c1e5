import OTASMP
import OTAUpdate
import Testing

@Suite struct SMPChannelTests {
    /// Zephyr, `smp_bt.c`: the UUIDs as they are written in its documentation, without the hyphens.
    @Test func isTheOneOfZephyr() {
        #expect(String(SMPChannel.value.service, radix: 16) == "8d53dc1d1db74cd3868b8a527460aa84")
        #expect(String(SMPChannel.value.characteristic, radix: 16) == "da2e7828fbce4e01ae9e261174997c48")
    }
}
