import OTAEngine
import OTAFirmware
import OTASigning
import OTASimulator
import OTAUpdate
import Testing

@Suite("Virtual devices with ML-DSA keys") struct HybridDeviceTests {
    /// A key without a private key. It needs no libcrypto with ML-DSA.
    private static func mlDSA(_ algorithm: SignatureAlgorithm = .mlDSA65, _ byte: UInt8 = 1) throws -> PublicKey {
        try PublicKey(algorithm: algorithm, bytes: [UInt8](repeating: byte, count: algorithm.publicKeyLength))
    }

    private static func hybrid() throws -> VirtualDeviceConfiguration {
        let keys = [try PublicKey(bytes: Example.publicKey), try mlDSA()]
        var configuration = VirtualDeviceConfiguration(
            product: try Example.unwrap(ProductName("demo")), trustedKeys: keys)
        configuration.layout = FlashLayout(pageSize: 512, slotSize: 4096)
        configuration.requiredAlgorithms = [.ed25519, .mlDSA65]
        return configuration
    }

    @Test("a device with an ML-DSA key has by default a buffer for every envelope, another one for 1332 bytes")
    func defaults() throws {
        #expect(try Self.hybrid().largestEnvelope == 65124)
        #expect(try Example.configuration().largestEnvelope == 1332)
    }

    @Test("the configuration of a hybrid device is the same after it was stored")
    func stored() throws {
        for change in [
            { _ in }, { $0.largestEnvelope = 4425 }, { $0.requiredAlgorithms = [] },
            {
                $0.trustedKeys.append(try Self.mlDSA(.mlDSA44))
                $0.trustedKeys.append(try Self.mlDSA(.mlDSA87))
            },
        ] as [(inout VirtualDeviceConfiguration) throws -> Void] {
            var configuration = try Self.hybrid()
            try change(&configuration)
            // A stored device has no wear limit.
            configuration.limitsWear = false
            #expect(try ProfileDeviceFile(json: ProfileDeviceFile(configuration).json).configuration == configuration)
        }
    }

    @Test("a policy that no bundle can fulfil is refused, and the core accepts every other one")
    func policies() throws {
        for (isValid, change) in [
            (true, { _ in }), (true, { $0.requiredAlgorithms = [.mlDSA65] }),
            (false, { $0.requiredAlgorithms = [.mlDSA44] }), (false, { $0.requiredSignatures = 2 }),
            (false, { $0.requiredSignatures = 9 }), (false, { $0.largestEnvelope = 157 }),
            (false, { $0.largestEnvelope = 158 + 3320 }), (true, { $0.largestEnvelope = 158 + 3321 }),
            (false, { $0.largestEnvelope = 65125 }),
            (
                true,
                {
                    $0.requiredAlgorithms = []
                    $0.largestEnvelope = 158
                }
            ),
            (
                true,
                {
                    $0.trustedKeys.append(try Self.mlDSA(.mlDSA65, 2))
                    $0.requiredAlgorithms = []
                    $0.requiredSignatures = 2
                }
            ),
        ] as [(Bool, (inout VirtualDeviceConfiguration) throws -> Void)] {
            var configuration = try Self.hybrid()
            try change(&configuration)
            #expect(((try? configuration.validate()) != nil) == isValid)
            guard isValid else { continue }
            let device = try VirtualDevice(configuration, version: try Example.version("1.0.0"), securityCounter: 3)
            #expect(device.reachable(at: .seconds(2)) != nil)
        }
    }

    @Test("a hybrid device refuses a bundle with only the Ed25519 signature, and its flash does not change")
    func downgrade() throws {
        let time = VirtualTime()
        let device = try VirtualDevice(Self.hybrid(), version: try Example.version("1.0.0"), securityCounter: 3)
        let transport = SimulatedTransport(device: device, clock: time)
        try time.run {
            try await transport.host { host in
                try await host.subscribe()
                let begin = Example.bytes("01 a9000000 00000000 ab017464e2fa78e9")
                #expect(try await host.request(1, begin).first == 0)
                host.send([Example.bytes("0010") + Example.envelope])
                #expect(try await host.request(3) == [7])
                // Without an accepted envelope, the device answers BEGIN of an image with "bad state".
                #expect(try await host.request(1, Example.bytes("02 58020000 00000000 db4f2ac25d140369")) == [3])
            }
        }
        #expect(device.recordedImage == nil && device.flashViolationCount == 0)
    }

    @Test("a device with an ML-DSA key in its image trusts this key")
    func keysInTheImage() throws {
        let keys = [try Self.mlDSA(.mlDSA87), try PublicKey(bytes: Example.publicKey)]
        let text = try keys.map { key in
            try key.pem().withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
        }.joined()
        let configuration = try Self.hybrid()
        let flash = VirtualFlash(layout: FlashLayout(pageSize: 512, slotSize: 8192))
        try VirtualBootloader(flash: flash).install(
            Array("otaflash-trusted-keys:\n\(text)end".utf8), version: try Example.version("1.0.0"),
            securityCounter: 1)
        var changed = configuration
        changed.layout = flash.layout
        changed.requiredAlgorithms = [.mlDSA87]
        let device = VirtualDevice(changed, flash: flash)
        #expect(device.reachable(at: .seconds(2)) != nil)
        #expect(device.connect(1, at: .seconds(2)))
        let info = try device.read(1, VirtualGATT.info, at: .seconds(2))
        #expect(info.firstRange(of: [8, 16] + keys.flatMap(\.id.bytes)) != nil)
    }
}
