import BlueZ
import DBus
import Testing

@Suite("Object tree of bluetoothd")
struct ObjectTreeTests {
    @Test("a snapshot of bluetoothd is read completely")
    func readsWhatBluetoothdTells() throws {
        var tree = BlueZObjectTree()
        #expect(!tree.isServiceRunning)
        #expect(tree.apply(.snapshot(Objects.all)).isEmpty)
        #expect(tree.isServiceRunning)

        let adapter = try #require(tree.adapter(named: "hci0"))
        #expect(adapter.address.description == "00:AA:01:00:00:42")
        #expect(adapter.alias == "radio-lab")
        #expect(adapter.isPowered)
        #expect(!adapter.isDiscovering)

        let device = try #require(tree.devices(of: adapter.path).first)
        #expect(device.address.description == "00:AA:01:01:00:42")
        #expect(device.addressKind == .public)
        #expect(device.name == "Bumble")
        #expect(device.rssi == -50)
        #expect(device.transmitPower == 4)
        #expect(device.serviceUUIDs == [Objects.ota])
        #expect(device.serviceData == [BluetoothUUID(assigned: 0xFE59): [1, 2]])
        #expect(device.manufacturerData == [0x59: [3]])
        #expect(!device.isConnected && !device.isPaired && !device.areServicesResolved)

        let service = try #require(tree.table(of: device.path).first)
        #expect(service.uuid == Objects.ota)
        #expect(service.isPrimary)
        let characteristic = try #require(service.characteristics.first)
        #expect(characteristic.uuid == Objects.control)
        #expect(characteristic.service == Objects.ota)
        #expect(characteristic.operations == [.write, .notify])
        #expect(tree.mtu(of: device.path) == 517)
    }

    @Test("changed and invalidated properties are applied")
    func followsChanges() throws {
        var tree = Objects.tree()
        tree.set(Objects.devicePath, BlueZName.device, "Connected", true)
        tree.set(Objects.devicePath, BlueZName.device, "RSSI", nil)
        let device = try #require(tree.devices[Objects.devicePath])
        #expect(device.isConnected)
        #expect(device.rssi == nil)
        #expect(device.name == "Bumble")
    }

    @Test("a removed object is gone, and a late change of it has no effect")
    func forgetsWhatIsRemoved() {
        var tree = Objects.tree()
        #expect(
            tree.apply(.removed(Objects.devicePath, ["org.freedesktop.DBus.Introspectable", BlueZName.device])).isEmpty)
        #expect(tree.devices.isEmpty)
        #expect(tree.adapters.count == 1)
        // A late change of the removed object has no effect.
        let before = tree
        tree.set(Objects.devicePath, BlueZName.device, "Connected", true)
        #expect(tree == before)
    }

    @Test("the generation increases when bluetoothd stops")
    func countsTheLivesOfBluetoothd() {
        var tree = Objects.tree()
        let before = tree
        _ = tree.apply(.serviceLost)
        #expect(!tree.isServiceRunning)
        #expect(tree.adapters.isEmpty && tree.devices.isEmpty && tree.services.isEmpty && tree.characteristics.isEmpty)
        _ = tree.apply(.snapshot(Objects.all))
        #expect(tree.devices == before.devices)
        #expect(tree.generation == before.generation + 1)
    }

    @Test("a new snapshot replaces all objects")
    func aSnapshotIsAllThereIs() {
        var tree = Objects.tree()
        _ = tree.apply(.snapshot([Objects.adapterPath: Objects.adapter]))
        #expect(tree.devices.isEmpty && tree.services.isEmpty && tree.characteristics.isEmpty)
        #expect(tree.generation == 0)
    }

    @Test(
        "a malformed object is omitted, and a change that would make one malformed is not applied",
        arguments: [
            (BlueZName.device, "Address", DBusValue.string("00:AA:01:01:00")),
            (BlueZName.device, "Address", .uint32(1)),
            (BlueZName.device, "Adapter", "/org/bluez/hci0"), (BlueZName.device, "AddressType", "secret"),
            (BlueZName.device, "RSSI", .int32(-50)), (BlueZName.device, "RSSI", .byte(50)),
            (BlueZName.device, "Connected", .byte(1)),
            (BlueZName.device, "UUIDs", .strings(["1"])), (BlueZName.device, "UUIDs", "180f"),
            (BlueZName.device, "UUIDs", .array(of: .variant, [])),
            (BlueZName.device, "ManufacturerData", .properties(["59": .bytes([1])])),
            (BlueZName.device, "ServiceData", .properties(["180f": "text"])),
            (BlueZName.device, "ServiceData", .properties(["18f": .bytes([])])),
        ])
    func leavesOutWhatIsMalformed(_ interface: String, _ name: String, _ value: DBusValue) throws {
        var device = try #require(Objects.device[interface])
        device[name] = value
        var tree = Objects.tree([Objects.adapterPath: Objects.adapter])
        let malformed = tree.apply(.added(Objects.devicePath, [interface: device]))
        #expect(malformed.count == 1)
        #expect(malformed.first?.path == Objects.devicePath)
        #expect(malformed.first?.interface == interface)
        #expect(tree.devices.isEmpty)

        // A change that would make a valid object malformed is not applied.
        var whole = Objects.tree()
        let before = whole
        #expect(whole.set(Objects.devicePath, interface, name, value).count == 1)
        #expect(whole == before)
    }

    @Test("adapters are listed in the order of their numbers")
    func ordersAdaptersByNumber() {
        let names = ["hci10", "hci2", "hci0"]
        var objects: [DBusObjectPath: DBusObjectChange.Interfaces] = [:]
        for name in names { objects[DBusObjectPath("/org/bluez/\(name)")] = Objects.adapter }
        #expect(Objects.tree(objects).adapterList.map(\.name) == ["hci0", "hci2", "hci10"])
    }

    @Test("usableAdapter returns a powered adapter or throws the reason")
    func findsTheAdapterThatCanBeUsed() throws {
        var tree = BlueZObjectTree()
        func code(_ name: String?) -> BlueZError.Code? {
            do throws(BlueZError) {
                _ = try tree.usableAdapter(name)
                return nil
            } catch { return error.code }
        }
        #expect(code(nil) == .serviceUnavailable)
        tree = Objects.tree([:])
        #expect(code(nil) == .noSuchAdapter)
        tree = Objects.tree([Objects.adapterPath: Objects.adapter, "/org/bluez/hci1": Objects.adapter])
        tree.set(Objects.adapterPath, BlueZName.adapter, "Powered", false)
        #expect(try tree.usableAdapter(nil).name == "hci1")
        #expect(code("hci0") == .adapterOff)
        #expect(code("hci7") == .noSuchAdapter)
    }
}
