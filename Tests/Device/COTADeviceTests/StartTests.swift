import COTADevice
import Testing

@Suite("Configuration of the device core") struct StartTests {
    private func start(_ edit: (inout Settings) -> Void) -> ota_start_error {
        var settings = Settings()
        edit(&settings)
        let bench = Bench()
        bench.settings = settings
        return bench.boot()
    }

    @Test("ota_device_start refuses each configuration value outside its limits")
    func limits() {
        #expect(start { _ in } == OTA_START_OK)
        #expect(start { $0.product = nil } == OTA_START_MISSING)
        #expect(start { $0.version = nil } == OTA_START_MISSING)
        for product in ["", "a b", "ä", String(repeating: "a", count: 64)] {
            #expect(start { $0.product = product } == OTA_START_PRODUCT)
        }
        #expect(start { $0.product = String(repeating: "a", count: 63) } == OTA_START_OK)
        #expect(start { $0.product = "AZaz09._-" } == OTA_START_OK)
        for version in ["", "1.0", "01.0.0", "1.0.0-" + String(repeating: "a", count: 58)] {
            #expect(start { $0.version = version } == OTA_START_VERSION)
        }
        #expect(start { $0.version = "1.0.0-" + String(repeating: "a", count: 57) } == OTA_START_OK)
        #expect(start { $0.keyIDs = [] } == OTA_START_KEYS)
        let ids = (0..<17).map { [UInt8](repeating: UInt8($0), count: 8) }
        #expect(start { $0.keyIDs = ids } == OTA_START_KEYS)
        #expect(start { $0.keyIDs = Array(ids.prefix(16)) } == OTA_START_OK)
        #expect(start { $0.keyIDs = [ids[0], ids[1], ids[0]] } == OTA_START_KEYS)
        #expect(start { $0.requiredSignatures = 1 } == OTA_START_OK)
        #expect(start { $0.requiredSignatures = 2 } == OTA_START_KEYS)
        #expect(
            start {
                $0.keyIDs = ids
                $0.keyIDs?.removeLast()
                $0.requiredSignatures = 9
            } == OTA_START_KEYS)
        #expect(start { $0.hasEnvelope = false } == OTA_START_MISSING)
        #expect(start { $0.format = 3 } == OTA_START_IMAGE_FORMAT)
        #expect(start { $0.format = 254 } == OTA_START_IMAGE_FORMAT)
        #expect(start { $0.format = 255 } == OTA_START_OK)
        #expect(start { $0.largestImage = 0 } == OTA_START_LARGEST_IMAGE)
        #expect(start { $0.largestImage = 16385 } == OTA_START_LARGEST_IMAGE)
        #expect(start { $0.longestData = 19 } == OTA_START_LONGEST_DATA)
        #expect(start { $0.longestData = 513 } == OTA_START_LONGEST_DATA)
        #expect(start { $0.longestData = 20 } == OTA_START_OK)
        #expect(start { $0.window = 0 } == OTA_START_WINDOW)
        #expect(start { $0.window = 2048 } == OTA_START_WINDOW)
        #expect(start { $0.restartSeconds = 0 } == OTA_START_TIMES)
        #expect(start { $0.trialSeconds = 0 } == OTA_START_OK)
        #expect(
            start {
                $0.trialSeconds = 1
                $0.onTrial = true
            } == OTA_START_OK)
        #expect(
            start {
                $0.trialSeconds = 0
                $0.onTrial = true
            } == OTA_START_TIMES)
    }

    /// With 64 pages of 256 bytes and write units of 4 the trailer has 824 bytes in four pages.
    @Test("an MCUboot slot whose largest image leaves no room for the trailer is refused")
    func mcubootTrailer() {
        func start(_ largest: UInt32, trial: UInt16 = 60, unit: UInt8 = 4) -> ota_start_error {
            self.start {
                $0.format = 2
                $0.largestImage = largest
                $0.trialSeconds = trial
                $0.writeUnit = unit
            }
        }
        let largest: UInt32 = 16384 - 4 * 256 - 256
        #expect(start(largest) == OTA_START_OK)
        #expect(start(largest + 1) == OTA_START_LARGEST_IMAGE)
        // The value of `boot_get_area_trailer_status_offset`.
        #expect(start(16384 - 32) == OTA_START_LARGEST_IMAGE)
        #expect(start(largest, unit: 8) == OTA_START_LARGEST_IMAGE)
        #expect(start(16384 - 7 * 256 - 256, unit: 8) == OTA_START_OK)
        // Without a swap the trailer has only the flags.
        #expect(start(16384 - 56, trial: 0) == OTA_START_OK)
        #expect(start(16384 - 55, trial: 0) == OTA_START_LARGEST_IMAGE)
        // The trailer needs the whole slot.
        #expect(
            self.start {
                $0.format = 2
                $0.slotSize = 512
                $0.largestImage = 1
            } == OTA_START_LARGEST_IMAGE)
    }

    @Test("ota_device_start refuses impossible page sizes, slot sizes and write units")
    func pages() {
        for (page, slot) in [(255, 2550), (65537, 655_370), (256, 0), (256, 16000), (256, 128)] as [(UInt32, UInt32)] {
            #expect(
                start {
                    $0.pageSize = page
                    $0.slotSize = slot
                    $0.writeUnit = 1
                } == OTA_START_PAGES)
        }
        for unit in [0, 3, 12, 48, 65, 128] as [UInt8] { #expect(start { $0.writeUnit = unit } == OTA_START_PAGES) }
        #expect(
            start {
                $0.pageSize = 260
                $0.slotSize = 2600
                $0.writeUnit = 8
            } == OTA_START_PAGES)
        #expect(
            start {
                $0.eraseAhead = true
                $0.eraseStep = 0
            } == OTA_START_PAGES)
    }

    private func policy(
        _ algorithms: [UInt8], required: UInt8 = 0, of requiredAlgorithms: [UInt8] = [], envelope: UInt16 = 65124
    ) -> ota_start_error {
        start {
            $0.keyIDs = algorithms.indices.map { [UInt8](repeating: UInt8($0), count: 8) }
            $0.keyAlgorithms = algorithms
            $0.requiredSignatures = required
            $0.requiredAlgorithms = requiredAlgorithms.reduce(0) { $0 | 1 << $1 }
            $0.largestEnvelope = envelope
        }
    }

    @Test("ota_device_start refuses a policy that no bundle can fulfil with the trusted keys")
    func policies() {
        for unknown in [0, 5, 255] as [UInt8] { #expect(policy([1, unknown]) == OTA_START_KEYS) }
        #expect(policy([2]) == OTA_START_OK)
        // Keys of different algorithms do not count together.
        #expect(policy([1, 2], required: 2) == OTA_START_KEYS)
        #expect(policy([1, 2, 2], required: 2) == OTA_START_OK)
        #expect(policy([1, 2], of: [1]) == OTA_START_OK)
        #expect(policy([1, 2], of: [1, 2]) == OTA_START_OK)
        #expect(policy([1, 2], of: [1, 3]) == OTA_START_KEYS)
        #expect(policy([1, 1, 2], required: 2, of: [1, 2]) == OTA_START_KEYS)
        #expect(policy([1, 1, 2, 2], required: 2, of: [1, 2]) == OTA_START_OK)
        for unknown in [0, 5, 6, 7] as [UInt8] {
            #expect(policy([1, 2], of: [unknown]) == OTA_START_KEYS)
            #expect(policy([1, 2], of: [1, unknown]) == OTA_START_KEYS)
        }
        // An envelope has at most eight signatures.
        let fives = [UInt8](repeating: 1, count: 5) + [UInt8](repeating: 2, count: 5)
        #expect(policy(fives, required: 4, of: [1, 2]) == OTA_START_OK)
        #expect(policy(fives, required: 5, of: [1, 2]) == OTA_START_KEYS)
        #expect(policy(fives, required: 5) == OTA_START_OK)
    }

    /// The shortest envelope of one Ed25519 signature has 158 bytes, and an entry of ML-DSA-44 has 2432.
    @Test("ota_device_start refuses a buffer that the required signatures do not fit in")
    func envelopes() {
        let (ed25519, mlDSA44) = (76, 2432)
        func expectLeast(
            _ size: Int, _ algorithms: [UInt8], _ required: UInt8 = 0, _ of: [UInt8] = [],
            _ location: SourceLocation = #_sourceLocation
        ) {
            let limits = [UInt16(size - 1), UInt16(size)].map {
                policy(algorithms, required: required, of: of, envelope: $0)
            }
            #expect(limits == [OTA_START_ENVELOPE, OTA_START_OK], sourceLocation: location)
        }
        expectLeast(158, [1])
        expectLeast(158 + ed25519, [1, 1], 2)
        expectLeast(158 - ed25519 + mlDSA44, [2])
        // One algorithm is enough, so the buffer may be too small for the other.
        expectLeast(158, [1, 2])
        expectLeast(158 - ed25519 + 2 * mlDSA44, [1, 2, 2], 2)
        expectLeast(158 + mlDSA44, [1, 2], 0, [1, 2])
        expectLeast(158 + ed25519 + 2 * mlDSA44, [1, 1, 2, 2], 2, [1, 2])
        expectLeast(158 - ed25519 + mlDSA44, [1, 2], 0, [2])
        #expect(policy([1], envelope: 65125) == OTA_START_ENVELOPE)
    }

    @Test("ota_device_start refuses a port without a required callback")
    func callbacks() {
        let required: [(inout ota_port) -> Void] = [
            { $0.read = nil }, { $0.write = nil }, { $0.erase = nil }, { $0.hash_start = nil },
            { $0.hash_update = nil },
            { $0.hash_finish = nil }, { $0.verify = nil }, { $0.notify = nil }, { $0.mark = nil }, { $0.confirm = nil },
            { $0.roll_back = nil }, { $0.reboot = nil },
        ]
        for remove in required {
            let bench = Bench()
            bench.change(remove)
            #expect(bench.boot() == OTA_START_MISSING)
        }
    }
}
