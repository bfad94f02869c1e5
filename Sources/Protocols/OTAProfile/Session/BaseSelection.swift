import OTAFirmware

/// Selects the images that a push offers to the device as bases.
struct BaseSelection {
    /// The maximum number of bases that a push offers to the device.
    static let mostBases = 3
    /// The maximum number of notes of one kind.
    static let mostNotes = 3

    /// The bases in the order in which the push tries them. Their digests differ.
    private(set) var offered: [BaseImage] = []
    /// More bases, for the case that no file with the image of a base of `offered` can be read. Their digests differ.
    private(set) var reserve: [BaseImage] = []
    /// Other files with the images of `offered` and `reserve`. The push reads such a file if the first file with the image cannot be read.
    private(set) var copies: [BaseImage] = []
    /// Messages for the user about bases that are not offered.
    private(set) var notes: [String] = []

    /// Selects from `bases`. A base that the user did not name causes a note only if it is larger than `largest`.
    ///
    /// - Parameters:
    ///   - largest: the size in bytes of the largest base that the device can use; 0: the device cannot use a base.
    init(from bases: [BaseImage], for device: DeviceSnapshot, largest: UInt32) {
        let candidates = Self.candidates(bases, device)
        let named = bases.filter(\.isNamed)
        guard largest > 0 else {
            if let base = candidates.first ?? named.first {
                notes = [Self.note(base, "the device cannot use a base, so it gets no delta")]
            }
            return
        }
        let fitting = candidates.filter { $0.size <= largest }
        for base in fitting {
            if (offered + reserve).contains(where: base.hasSameImage) {
                copies.append(base)
            } else if offered.count < Self.mostBases {
                offered.append(base)
            } else {
                reserve.append(base)
            }
        }
        add(candidates.filter { $0.size > largest }) {
            "its image has \($0.size) bytes, the device accepts at most \(largest)"
        }
        guard offered.isEmpty else { return }
        add(named.filter { base in !candidates.contains { $0.id == base.id } }) { Self.difference($0, from: device) }
    }

    /// Returns the notes for a device that accepts no encoded image.
    static func notesWithoutEncodings(_ bases: [BaseImage]) -> [String] {
        let named = bases.first(where: \.isNamed)
        return named.map { [note($0, "the device does not accept encoded images")] } ?? []
    }

    /// Returns the notes about the bases of `bases` that the user named. A push does not offer these bases, because the device has refused
    /// the maximum number of bases.
    static func notesAfterRefusals(_ bases: [BaseImage]) -> [String] {
        notes(bases.filter(\.isNamed)) { _ in "a push offers at most \(mostBases) bases" }
    }

    private mutating func add(_ bases: [BaseImage], _ reason: (BaseImage) -> String) {
        notes += Self.notes(bases, reason)
    }

    private static func notes(_ bases: [BaseImage], _ reason: (BaseImage) -> String) -> [String] {
        bases.prefix(mostNotes).map { note($0, reason($0)) }
    }

    private static func note(_ base: BaseImage, _ reason: String) -> String { "no base from \(base.name): \(reason)" }

    /// Returns the bases whose images may run on the device, from the most probable one to the least probable one. Each base occurs once.
    ///
    /// First come the bases with the manifest digest that the device reports. Then come the bases in bundles of the device's product and
    /// version. Last come the bases that are not in a bundle.
    private static func candidates(_ bases: [BaseImage], _ device: DeviceSnapshot) -> [BaseImage] {
        let known = bases.filter { $0.size > 0 }
        let running = known.filter { device.info.running != nil && $0.manifestDigest?.prefix == device.info.running }
        let sameVersion = known.filter { $0.product?.text == device.info.product && $0.version == device.version }
        let unnamed = known.filter { $0.manifestDigest == nil }
        var ids = Set<Int>()
        return (running + sameVersion + unnamed).filter { ids.insert($0.id).inserted }
    }

    /// Returns the reason why the device does not run the image of this base.
    private static func difference(_ base: BaseImage, from device: DeviceSnapshot) -> String {
        guard let product = base.product, product.text == device.info.product, let version = base.version else {
            let product = base.product.map { "for the product \($0.text)" } ?? "empty"
            return "it is \(product), the device is \(device.info.product)"
        }
        return "it is version \(version.text), the device runs \(device.version.text); "
            + "give --base with the bundle of \(device.version.text)"
    }
}
