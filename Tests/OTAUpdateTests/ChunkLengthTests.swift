import OTAUpdate
import Testing

@Suite struct ChunkLengthTests {
    /// Link, device, planned: docs/ota-profile.md, "Chunk length".
    @Test(arguments: [
        (244, 512, 244), (495, 512, 495), (514, 512, 495), (514, 494, 244), (514, 243, 243), (20, 512, 20),
        (494, 512, 244), (185, 512, 185), (514, 20, 20),
    ]) func fillsLinkLayerPackets(link: Int, device: Int, planned: Int) {
        #expect(ChunkLength.planned(link: link, device: device) == planned)
    }
}
