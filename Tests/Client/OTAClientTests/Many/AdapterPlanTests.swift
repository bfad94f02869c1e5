import OTAClient
import Testing

@Suite("Distribution of Bluetooth devices over several adapters") struct AdapterPlanTests {
    private static func assign(_ devices: [[String: Int?]], _ adapters: String...) -> [String?] {
        var plan = AdapterPlan(adapters)
        return devices.map { plan.assign(heard: $0) }
    }

    @Test("a device goes to the adapter that hears it best, also if this adapter has more devices")
    func strongest() {
        let near: [String: Int?] = ["hci0": -80, "hci1": -50]
        let other: [String: Int?] = ["hci0": -40, "hci1": -46]
        #expect(Self.assign([near, near, other], "hci0", "hci1") == ["hci1", "hci1", "hci0"])
        let onlyOne: [String: Int?] = ["hci1": -90]
        #expect(Self.assign([onlyOne, onlyOne], "hci0", "hci1") == ["hci1", "hci1"])
    }

    @Test("among adapters within 6 dB, a device goes to the adapter with the fewest devices")
    func balance() {
        let same: [String: Int?] = ["hci0": -50, "hci1": -55]
        #expect(Self.assign([same, same, same, same], "hci0", "hci1") == ["hci0", "hci1", "hci0", "hci1"])
        let different: [String: Int?] = ["hci0": -50, "hci1": -56]
        #expect(Self.assign([different, different], "hci0", "hci1") == ["hci0", "hci0"])
        let unknown: [String: Int?] = ["hci0": nil, "hci1": nil]
        #expect(Self.assign([unknown, unknown], "hci0", "hci1") == ["hci0", "hci1"])
        #expect(
            Self.assign([["hci0": nil, "hci1": -90]], "hci0", "hci1") == ["hci1"], "an unknown strength is the weakest")
    }

    @Test("a device that no adapter hears goes to the adapter with the fewest devices")
    func unheard() {
        #expect(Self.assign([["hci0": -50], [:], [:]], "hci0", "hci1") == ["hci0", "hci1", "hci0"])
        #expect(Self.assign([["hci7": -50]], "hci0") == ["hci0"], "an adapter outside the plan does not count")
        #expect(Self.assign([[:]]) == [nil])
    }
}
