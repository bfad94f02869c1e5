import BlueZ
import Testing

@Suite("Bluetooth UUIDs")
struct BluetoothUUIDTests {
    /// Assigned numbers are a part of the base UUID (Core Specification, Vol 3, Part B, 2.5.1).
    @Test(
        "short and full UUIDs are parsed and written in full",
        arguments: [
            ("180f", "0000180f-0000-1000-8000-00805f9b34fb"),
            ("0x2A19", "00002a19-0000-1000-8000-00805f9b34fb"),
            ("0x0001180F", "0001180f-0000-1000-8000-00805f9b34fb"),
            ("C7E10001-63A0-486D-9BCB-A18D79D9ACD9", "c7e10001-63a0-486d-9bcb-a18d79d9acd9"),
            ("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000"),
            ("ffffffff-ffff-ffff-ffff-ffffffffffff", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
        ])
    func readsWhatPeopleAndTheBusWrite(_ text: String, _ whole: String) throws {
        let uuid = try #require(BluetoothUUID(text))
        #expect(uuid.description == whole)
        #expect(BluetoothUUID(whole) == uuid)
    }

    @Test("assigned numbers and UUIDs are converted into each other")
    func knowsAssignedNumbers() {
        #expect(BluetoothUUID(assigned: 0x180F).assigned == 0x180F)
        #expect(BluetoothUUID(assigned: 0x180F) == BluetoothUUID("180F"))
        #expect(BluetoothUUID("0001180f")?.assigned == 0x1_180F)
        #expect(BluetoothUUID("c7e10001-63a0-486d-9bcb-a18d79d9acd9")?.assigned == nil)
        #expect(
            BluetoothUUID(0xc7e1_0001_63a0_486d_9bcb_a18d_79d9_acd9).description
                == "c7e10001-63a0-486d-9bcb-a18d79d9acd9")
    }

    @Test(
        "a malformed UUID is refused",
        arguments: [
            "", "18", "0x", "18 f", "+180", "-180", "180g", "0x0x18", "c7e1000163a0486d9bcba18d79d9acd9",
            "c7e10001-63a0-486d-9bcb-a18d79d9acd", "c7e10001-63a0-486d-9bcb-a18d79d9acd9-",
            "+7e10001-63a0-486d-9bcb-a18d79d9acd9",
            "c7e10001-63a0-486d-9bcb-a18d79d9açd", "０180",
        ])
    func refusesAnythingElse(_ text: String) { #expect(BluetoothUUID(text) == nil) }

    /// With an alignment of 16 bytes, the task of this test crashes in a debug build of Swift 6.3.1.
    @Test("a UUID in a structure can be captured by the closure of a task and by closures in this closure")
    func captures() async throws {
        let uuid = BluetoothUUID(assigned: 0x180F)
        let result = try await capture(Captured(uuid: uuid, number: 1, byte: 2), "name")
        #expect(result.uuid == uuid)
    }

    private struct Captured {
        var uuid: BluetoothUUID
        var number: UInt64
        var byte: UInt8
    }

    private func capture(_ captured: Captured, _ name: String) async throws -> Captured {
        let task = Task {
            try await scope { number in
                _ = (name, number)
                return try await scope { _ in
                    _ = name
                    return try await scope { _ in
                        await Task.yield()
                        return captured
                    }
                }
            }
        }
        return try await task.value
    }
}

private func scope<Result>(_ body: (Int) async throws -> Result) async throws -> Result {
    await Task.yield()
    return try await body(1)
}
