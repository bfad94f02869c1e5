import OTAFirmware
import OTASimulator
import OTAUpdate
import SystemPackage
import Testing

@Suite("Stored virtual SMP devices") struct VirtualDeviceStoreSMPTests {
    private func withStore(_ body: (VirtualDeviceStore) throws -> Void) throws {
        try withTemporaryFolder { try body(VirtualDeviceStore(folder: $0)) }
    }

    private func create(_ name: String, in store: VirtualDeviceStore) throws {
        var configuration = VirtualSMPConfiguration()
        configuration.board = "nrf52840dk"
        configuration.bufferSize = 384
        configuration.bufferCount = 2
        (configuration.reportsParameters, configuration.reassembles) = (false, false)
        (configuration.reportsSlots, configuration.marksImages) = (false, false)
        (configuration.reportsBoard, configuration.hasImageGroup, configuration.packetLimit) = (false, false, 300)
        (configuration.answerDelay, configuration.releaseDelay) = (.milliseconds(7), .milliseconds(20))
        try store.create(name, configuration, version: try Example.version("1.2.3"))
    }

    @Test("an opened SMP device has the configuration of its creation")
    func aDeviceIsWhatItWasMade() throws {
        try withStore { store in
            try create("board", in: store)
            #expect(try store.updateProtocol(of: "board") == UpdateProtocol(rawValue: "smp"))
            let summary = try store.summary(of: "board")
            #expect(try store.list().devices == [summary])
            #expect(
                summary.updateProtocol == UpdateProtocol(rawValue: "smp") && summary.product == "nrf52840dk"
                    && summary.version == "1.2.3")
            #expect(summary.hardware == nil && summary.securityCounter == nil)
            let configuration = try store.openSMP("board").configuration
            #expect(configuration.board == "nrf52840dk" && configuration.trustedKeys.count == 1)
            #expect(configuration.bufferSize == 384 && configuration.bufferCount == 2)
            #expect(!configuration.reportsParameters && !configuration.reassembles)
            #expect(!configuration.reportsSlots && !configuration.marksImages && !configuration.reportsBoard)
            #expect(!configuration.hasImageGroup && configuration.packetLimit == 300)
            #expect(configuration.answerDelay == .milliseconds(7) && configuration.releaseDelay == .milliseconds(20))
        }
    }

    @Test("a device file of an earlier release, without reports_board, gives a device that reports its board")
    func readsAnOlderFile() throws {
        var configuration = VirtualSMPConfiguration()
        configuration.reportsBoard = false
        let text = String(decoding: try SMPDeviceFile(configuration).json, as: UTF8.self)
        let member = #/"reports_?[bB]oard"\s*:\s*false\s*,\s*/#
        #expect(text.firstMatch(of: member) != nil, "\(text)")
        let older = try SMPDeviceFile(json: Array(text.replacing(member, with: "").utf8))
        #expect(try older.configuration.reportsBoard)
    }

    /// The factory image is signed by a key that the device trusts, so it boots.
    @Test("a stored SMP device boots its factory image, and is unreachable after it is suspended")
    func aDeviceStarts() throws {
        try withStore { store in
            try create("board", in: store)
            let device = try store.openSMP("board")
            #expect(device.reachable(at: .zero) == .zero)
            #expect(device.running?.image.version == "1.2.3" && device.running?.isOnTrial == false)
            device.suspend()
            #expect(device.reachable(at: .seconds(10)) == nil)
        }
    }

    @Test("opening a device with the functions for the other protocol fails with device-malformed")
    func theOtherKindIsNotTakenForIt() throws {
        try withStore { store in
            try create("board", in: store)
            #expect(throws: VirtualDeviceError(.malformed, "")) { try store.open("board") }
            try store.create("kitchen", try Example.configuration(), version: try Example.version("1.0.0"))
            #expect(try store.updateProtocol(of: "kitchen") == UpdateProtocol(rawValue: "ota"))
            #expect(throws: VirtualDeviceError(.malformed, "")) { try store.openSMP("kitchen") }
        }
    }

    @Test("creating an SMP device with an invalid buffer count or version fails and creates no device")
    func whatCannotBeIsRefused() throws {
        try withStore { store in
            var configuration = VirtualSMPConfiguration()
            configuration.bufferCount = 0
            #expect(throws: VirtualDeviceError(.badConfiguration, "")) {
                try store.create("board", configuration, version: try Example.version("1.0.0"))
            }
            #expect(throws: VirtualDeviceError(.badConfiguration, "")) {
                try store.create("board", VirtualSMPConfiguration(), version: try Example.version("256.0.0"))
            }
            let names = try store.names()
            #expect(names == [])
        }
    }
}
