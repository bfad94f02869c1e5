import BlueZ
import DBus
import Testing

@Suite("Object tree with random input")
struct ObjectTreeRandomTests {
    private static let paths: [DBusObjectPath] = [
        Objects.adapterPath, Objects.devicePath, Objects.servicePath, Objects.characteristicPath, "/",
        "/org/bluez/hci1",
    ]
    private static let interfaces = [
        BlueZName.adapter, BlueZName.device, BlueZName.gattService, BlueZName.gattCharacteristic, "org.bluez.Battery1",
    ]

    @Test("random changes neither trap nor damage the tree", arguments: 0..<40 as Range<UInt64>)
    func survivesAnything(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var tree = Objects.tree()
        for _ in 0..<300 {
            let before = tree
            let malformed = tree.apply(Self.change(&random))
            for (path, device) in tree.devices { #expect(path == device.path) }
            for (path, adapter) in tree.adapters { #expect(path == adapter.path) }
            // A malformed change must not change its object.
            for object in malformed where tree.generation == before.generation && object.interface == BlueZName.device {
                #expect(tree.devices[object.path] == nil || tree.devices[object.path] == before.devices[object.path])
            }
            _ = tree.adapterList.flatMap { tree.devices(of: $0.path) }.map {
                (tree.table(of: $0.path), tree.mtu(of: $0.path))
            }
        }
    }

    /// One tree gets the objects one by one in random order, the other gets them in one snapshot.
    @Test("the order of the objects does not change the tree", arguments: 0..<20 as Range<UInt64>)
    func theOrderIsNoMatter(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var objects = Objects.all
        for _ in 0..<3 {
            if let path = Self.paths.randomElement(using: &random) { objects[path] = Self.object(&random) }
        }
        var tree = Objects.tree([:])
        for (path, interfaces) in objects.shuffled(using: &random) {
            for (name, properties) in interfaces { _ = tree.apply(.added(path, [name: properties])) }
        }
        #expect(tree == Objects.tree(objects))
    }

    private static func change(_ random: inout SeededGenerator) -> DBusObjectChange {
        let path = paths.randomElement(using: &random) ?? "/"
        switch UInt8.random(in: 0..<20, using: &random) {
        case 0: return .serviceLost
        case 1: return .snapshot(Objects.all)
        case 2: return .snapshot([path: object(&random)])
        case 3, 4: return .removed(path, interfaces.filter { _ in Bool.random(using: &random) })
        case 5, 6, 7: return .added(path, object(&random))
        case 8: return .added(path, Objects.all[path] ?? [:])
        default:
            let interface = interfaces.randomElement(using: &random) ?? ""
            return .changed(
                DBusPropertiesChange(
                    path: path, interface: interface, changed: properties(interface, &random),
                    invalidated: names.filter { _ in UInt8.random(in: 0..<10, using: &random) == 0 }))
        }
    }

    private static func object(_ random: inout SeededGenerator) -> DBusObjectChange.Interfaces {
        var object: DBusObjectChange.Interfaces = [:]
        for interface in interfaces where Bool.random(using: &random) {
            object[interface] = properties(interface, &random)
        }
        return object
    }

    private static let names = Set(Objects.all.values.flatMap(\.values).flatMap(\.keys)).sorted()

    /// Most properties are valid, so that the malformed ones often apply to existing objects.
    private static func properties(_ interface: String, _ random: inout SeededGenerator) -> [String: DBusValue] {
        let right = Objects.all.values.compactMap { $0[interface] }.first ?? [:]
        var properties = UInt8.random(in: 0..<4, using: &random) == 0 ? [:] : right
        for _ in 0..<UInt8.random(in: 0..<3, using: &random) {
            if let name = names.randomElement(using: &random) { properties[name] = value(&random, depth: 3) }
        }
        return properties
    }

    private static func value(_ random: inout SeededGenerator, depth: Int) -> DBusValue {
        switch UInt8.random(in: 0..<(depth > 0 ? 16 : 10), using: &random) {
        case 0: return .byte(.random(in: 0...255, using: &random))
        case 1: return .boolean(.random(using: &random))
        case 2: return .int16(.random(in: .min ... .max, using: &random))
        case 3: return .uint16(.random(in: 0 ... .max, using: &random))
        case 4: return .int32(.min)
        case 5: return .uint64(.max)
        case 6:
            return .string(
                ["", "00:AA:01:01:00:42", "180f", "\u{0}\u{FFFF}", "/", "🦊"].randomElement(using: &random) ?? "")
        case 7: return .objectPath(paths.randomElement(using: &random) ?? "/")
        case 8:
            return .bytes(
                (0..<Int.random(in: 0..<40, using: &random)).map { _ in .random(in: 0...255, using: &random) })
        case 9: return .double(.infinity)
        case 10: return .variant(value(&random, depth: depth - 1))
        case 11: return .array(of: .variant, (0..<2).map { _ in .variant(value(&random, depth: depth - 1)) })
        case 12:
            return .strings(
                ["180f", "", "c7e10001-63a0-486d-9bcb-a18d79d9acd9"].filter { _ in .random(using: &random) })
        case 13: return .structure([value(&random, depth: depth - 1)])
        case 14:
            return .dictionary(key: .uint16, value: .variant, [.uint16(1): .variant(value(&random, depth: depth - 1))])
        default: return .properties(["180f": value(&random, depth: depth - 1)])
        }
    }
}
