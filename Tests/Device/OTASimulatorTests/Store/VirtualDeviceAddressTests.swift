import OTASimulator
import Testing

@Suite("Addresses of virtual devices") struct VirtualDeviceAddressTests {
    @Test("an empty address has the default radio, no faults, real time and seed 1", arguments: ["", "?"])
    func nothingIsTheDefaults(body: String) throws {
        let address = try VirtualDeviceAddress(parsing: body)
        #expect(address.name == nil)
        #expect(address.radio.mtu == 247 && address.radio.interval == .milliseconds(15) && address.radio.perEvent == 6)
        #expect(address.radio.loss == 0 && address.faults == FaultPlan() && address.battery == nil)
        #expect(address.pace == .real && address.seed == 1 && address.flashSpeed == nil)
    }

    @Test("an address sets its name and each of its parameters")
    func everyItem() throws {
        let address = try VirtualDeviceAddress(
            parsing: "bench-1?mtu=185&interval=7.5ms&per-event=4&loss=0.25&drop-at=0.4&gone-at=1&gap=0.01&reset-at=0.5"
                + "&battery=30&flash=32&pace=virtual&seed=18446744073709551615")
        #expect(address.name == "bench-1")
        #expect(address.radio.mtu == 185 && address.radio.interval == .microseconds(7500))
        #expect(address.radio.perEvent == 4 && address.radio.loss == 0.25)
        #expect(address.faults.dropAt == [0.4] && address.faults.goneAt == 1 && address.faults.resetAt == [0.5])
        #expect(address.faults.gap == 0.01 && address.battery == 30 && address.flashSpeed == 32_000)
        #expect(address.pace == .virtual && address.seed == .max)
    }

    @Test("drop-at and reset-at accept comma-separated fractions")
    func aListOfParts() throws {
        let faults = try VirtualDeviceAddress(parsing: "?drop-at=0.25,0.5,1&reset-at=0").faults
        #expect(faults.dropAt == [0.25, 0.5, 1] && faults.resetAt == [0])
    }

    @Test(
        "an interval is accepted in ms and in s, with decimals",
        arguments: [
            ("7.5ms", Duration.microseconds(7500)), ("0.0075s", .microseconds(7500)), ("15ms", .milliseconds(15)),
            ("0.015s", .milliseconds(15)), ("0.5s", .milliseconds(500)), ("500ms", .milliseconds(500)),
            ("11.25ms", .microseconds(11250)),
        ])
    func times(text: String, time: Duration) throws {
        #expect(try VirtualDeviceAddress(parsing: "?interval=\(text)").radio.interval == time)
    }

    @Test(
        "a malformed, unknown or repeated parameter is refused with bad-address",
        arguments: [
            "mtu=22", "mtu=518", "mtu=", "mtu", "mtu=247.0", "mtu=+247", "mtu=99999999999999999999", "interval=7.4ms",
            "interval=501ms", "interval=1s", "interval=15", "interval=ms", "interval=-15ms", "interval=1e1ms",
            "interval=15us",
            "interval=nanms", "per-event=0", "per-event=101", "loss=1", "loss=-0.1", "loss=", "loss=.", "loss=0x0p0",
            "drop-at=1.1", "drop-at=.5", "drop-at=", "drop-at=0.1,", "drop-at=40%", "gone-at=0.1,0.2", "gap=2",
            "reset-at=inf",
            "battery=101", "battery=-1", "flash=0", "flash=100001", "flash=32kB", "pace=fast", "pace=", "seed=-1",
            "seed=18446744073709551616", "seed=0x1",
            "mtu=100&mtu=100", "mtu=100&", "&", "MTU=100", "m%74u=100", "drop_at=0.1", "",
        ].filter { !$0.isEmpty })
    func whatIsNotAllowedIsRefused(query: String) {
        #expect(throws: VirtualDeviceError(.badAddress, "")) { try VirtualDeviceAddress(parsing: "demo?\(query)") }
    }

    @Test(
        "an invalid device name is refused with bad-address",
        arguments: ["a/b", ".hidden", "..", "a b", "ä", "a&mtu=100", String(repeating: "a", count: 64)])
    func names(name: String) {
        #expect(throws: VirtualDeviceError(.badAddress, "")) { try VirtualDeviceAddress(parsing: name) }
    }

    @Test("the error for an unknown parameter lists the known parameters")
    func anUnknownItemNamesTheKnownOnes() {
        let error = #expect(throws: VirtualDeviceError.self) { try VirtualDeviceAddress(parsing: "?speed=9") }
        for item in [
            "speed", "mtu", "interval", "per-event", "loss", "drop-at", "gone-at", "gap", "reset-at", "battery", "pace",
            "seed",
        ] {
            #expect(error?.context.contains(item) == true)
        }
    }

    @Test("the error for a value out of range names the value and the allowed range")
    func aBadValueTellsWhatIsAllowed() {
        let error = #expect(throws: VirtualDeviceError.self) { try VirtualDeviceAddress(parsing: "?mtu=9") }
        #expect(error?.context == "mtu=9 is not a number of bytes from 23 to 517")
    }
}
