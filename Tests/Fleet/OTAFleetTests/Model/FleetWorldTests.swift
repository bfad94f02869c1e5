import OTAFleet
import Testing

@Suite("Fleets in virtual time") struct FleetWorldTests {
    @Test("20 fleets of 20 devices and 4 gateways with faults: each device is updated once, and no rule is broken")
    func fleets() throws {
        let fixtures = try Fixtures()
        for seed in 1...20 { try expectNoFailure(seed: UInt64(seed), fixtures: fixtures) }
    }

    @Test("a bad image halts the rollout in its first stage, and no device of a later stage is pushed to")
    func badImage() throws {
        let fixtures = try Fixtures()
        var shape = ModelWorld.Shape()
        shape.imageIsBad = true
        for seed in 1...5 { try expectNoFailure(seed: UInt64(seed), shape: shape, fixtures: fixtures) }
    }
}

@Suite("Fleets in virtual time, exhaustive") struct ExhaustiveFleetWorldTests {
    @Test(
        "2,000 fleets of 20 devices and 4 gateways with faults: each device is updated once, and no rule is broken",
        arguments: 1...8)
    func fleets(part: Int) throws {
        let fixtures = try Fixtures()
        for number in 0..<250 { try expectNoFailure(seed: UInt64(1000 * part + number), fixtures: fixtures) }
    }
}

private func expectNoFailure(
    seed: UInt64, shape: ModelWorld.Shape = ModelWorld.Shape(), fixtures: Fixtures
) throws {
    let world = try ModelWorld(seed: seed, shape: shape, fixtures: fixtures)
    try world.run()
    #expect(world.failures == [])
}
