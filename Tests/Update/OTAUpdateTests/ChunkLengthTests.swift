import OTAUpdate
import Testing

@Suite("Planned chunk length") struct ChunkLengthTests {
    // Each case: the link's limit, the device's limit, the planned length. Source: docs/ota-profile.md, "Chunk length".
    @Test(
        "the chunk length fills whole link layer packets and fits the link and the device",
        arguments: [
            (244, 512, 244), (495, 512, 495), (514, 512, 495), (514, 494, 244), (514, 243, 243), (20, 512, 20),
            (494, 512, 244), (185, 512, 185), (514, 20, 20),
        ])
    func fillsLinkLayerPackets(link: Int, device: Int, planned: Int) {
        #expect(ChunkLength.planned(link: link, device: device) == planned)
    }
}
