import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate
import Testing

@Suite("A new address after the restart, over SMP") struct SMPCandidateTests {
    private static let old = PlayedSlots.Image(digest: [UInt8](repeating: 1, count: 32), version: "1.0.0")

    /// Runs a push to a device that returns with the address "new". `others` are devices with the same name, by address.
    private func play(
        _ image: VerifiedImage, _ options: UpdateOptions = UpdateOptions(), others: [(String, PlayedSlots)] = [],
        returns: Bool = true
    ) -> (played: PlayedDevice, slots: PlayedSlots, requests: [String: [SMPFrame]]) {
        let slots = PlayedSlots(running: [0: Self.old], known: [image.fileDigest.bytes: image.listed()])
        var candidates = others.map(\.0) + (returns ? ["new"] : [])
        var current = ""
        var requests: [String: [SMPFrame]] = [:]
        let played = PlayedDevice(
            .push([SMPImage(image)], options),
            candidate: { rejected in
                candidates.removeAll { rejected.contains($0) }
                current = candidates.first ?? ""
                return candidates.first
            }
        ) { frame, _ in
            requests[current, default: []].append(frame)
            return (others.first { $0.0 == current }?.1 ?? slots).answer(frame)
        }
        return (played, slots, requests)
    }

    @Test("a device with a new address is confirmed after its image list shows the image of the push on trial")
    func newAddress() throws {
        let (played, slots, _) = play(try ExampleImage.make())
        #expect(played.report?.outcome == .confirmed && slots.isConfirmed(0), "\(String(describing: played.outcome))")
        #expect(played.accepted == [played.links] && played.report?.transfer?.disconnects == 0)
        #expect(
            played.reports.contains(.note("after its restart, the device has the new address new"))
                && played.reports.filter { $0 == .reconnected }.count == 1)
    }

    @Test("other devices with the same name get one request for their image list, and the device is still found")
    func others() throws {
        let image = try ExampleImage.make()
        var confirmed = image.listed()
        confirmed.confirmed = true
        let others = [
            ("old", PlayedSlots(running: [0: Self.old], known: [:])),
            ("updated before", PlayedSlots(running: [0: confirmed], known: [:])),
        ]
        let (played, slots, requests) = play(image, others: others)
        #expect(played.report?.outcome == .confirmed && slots.isConfirmed(0))
        for (address, _) in others {
            #expect(requests[address]?.map { [$0.group, UInt16($0.command)] } == [[1, 0]], "\(address)")
            #expect(requests[address]?.allSatisfy { $0.operation == .read } == true)
        }
        #expect(played.accepted == [played.links] && played.report?.transfer?.disconnects == 0)
    }

    @Test("if only other devices are seen, did-not-return names them and the difference")
    func noDevice() throws {
        let others = [("other", PlayedSlots(running: [0: Self.old], known: [:]))]
        let (played, _, requests) = play(try ExampleImage.make(), others: others, returns: false)
        let error = #expect(throws: UpdateError(.didNotReturn, "")) { try played.outcome?.get() }
        #expect(
            error?.context
                == "the device did not return after its restart: no advertisement was seen; 1 other device with its name was seen and left alone: "
                + "other runs version 1.0.0, which is not on trial")
        #expect(requests["other"]?.count == 1)
    }

    @Test("without a trial, another device is never taken for the device, and no link is opened to it")
    func permanent() throws {
        let (played, _, requests) = play(try ExampleImage.make(), UpdateOptions(ending: .permanent))
        #expect(played.error == .didNotReturn && requests["new"] == nil)
    }
}
