import OTAEngine
import OTASimulator
import OTAUpdate
import Testing

/// Runs the example of docs/ota-profile.md, byte for byte, over the simulated radio.
@Suite("Worked example of the OTA profile") struct ExampleTranscriptTests {
    @Test("the example of docs/ota-profile.md gives its documented bytes over the simulated radio")
    func theExampleOfTheProfile() throws {
        let time = VirtualTime()
        let device = try Example.device()
        let transport = SimulatedTransport(device: device, clock: time)
        try time.run {
            try await transport.host { try await Self.install(&$0) }
            try await transport.host { try await Self.confirm(&$0) }
        }
        #expect(device.runningImage == Example.image)
        #expect(device.bootState?.trial == BootState.Trial.none)
        #expect(device.running?.image.version == "1.1.0")
        #expect(device.running?.image.securityCounter == 7)
        #expect(device.flashViolationCount == 0)
        #expect(device.restartCount == 1)
        #expect(transport.statistics.maximumChunksInFlight == 3)
    }

    private static func install(_ host: inout TinyHost) async throws {
        try await host.subscribe()
        #expect(try await host.read(VirtualGATT.version) == Array("1.0.0".utf8))
        #expect(
            try await host.ask("01 21 01 a9 00 00 00 00 00 00 00 ab 01 74 64 e2 fa 78 e9")
                == "81210000100000000000000000")
        host.send([Example.bytes("0010") + Example.envelope])
        #expect(try await host.ask("02 22 01 10") == "8222000110a900000088e1590d")
        #expect(try await host.ask("03 23") == "832300")
        #expect(
            try await host.ask("01 24 02 58 02 00 00 ff ff ff ff db 4f 2a c2 5d 14 03 69")
                == "81240001200000000000000000")
        let image = Example.image
        // The chunk 0x2002 is lost.
        host.send([Example.bytes("0120") + image[..<242], Example.bytes("0320") + image[484...]])
        let rewind = try await host.wait {
            if case .notified(let bytes, VirtualGATT.progress) = $0 { bytes } else { nil }
        }
        #expect(rewind == Example.bytes("03 00 02 30 f2 00 00 00 6a 82 aa 3b"))
        host.send([Example.bytes("0230") + image[242..<484], Example.bytes("0330") + image[484...]])
        #expect(try await host.ask("02 25 04 30") == "8225000430580200003b94b2df")
        #expect(try await host.ask("03 26") == "832600")
        #expect(try await host.ask("04 27 00") == "842700")
    }

    private static func confirm(_ host: inout TinyHost) async throws {
        try await host.subscribe()
        #expect(try await host.read(VirtualGATT.version) == Array("1.1.0".utf8))
        #expect(try await host.read(VirtualGATT.progress) == Example.bytes("050000000000000000000000"))
        #expect(try await host.ask("05 28") == "852800")
    }
}
