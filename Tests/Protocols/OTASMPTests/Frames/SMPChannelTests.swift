import OTASMP
import OTAUpdate
import Testing

@Suite("SMP channel") struct SMPChannelTests {
    // Source: Zephyr, `smp_bt.c`. The documentation has the same UUIDs with hyphens.
    @Test("the SMP service and characteristic have Zephyr's UUIDs")
    func isTheOneOfZephyr() {
        #expect(String(SMPChannel.value.service, radix: 16) == "8d53dc1d1db74cd3868b8a527460aa84")
        #expect(String(SMPChannel.value.characteristic, radix: 16) == "da2e7828fbce4e01ae9e261174997c48")
    }
}
