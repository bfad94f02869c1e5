/// What lies in a device's slots.
package struct SMPImageList: Sendable, Equatable {
    package struct Entry: Sendable, Equatable {
        /// Which of the images of a device with several processors; 0 where there is one.
        package var image = 0
        package var slot = 0
        /// As the device has it: `1.2.3`, or `1.2.3.4` with a build number.
        package var version = ""
        /// The digest among the image's own trailer records, not the file's.
        package var digest: [UInt8]?
        package var bootable = false
        /// The next start is its.
        package var pending = false
        package var confirmed = false
        package var active = false
        package var permanent = false

        package init() {}
    }
    /// A device has two slots for each image, and few images.
    private static let most = 32

    package var entries: [Entry]

    package init(_ entries: [Entry]) { self.entries = entries }

    package init(_ fields: [String: CBORValue]) throws(SMPFrameError) {
        guard let images = fields["images"]?.array, images.count <= Self.most else {
            throw SMPFrameError(context: "the device's list of images is none")
        }
        var entries: [Entry] = []
        for image in images { entries.append(try Entry(image)) }
        self.init(entries)
    }

    /// What runs as image `number`.
    package func running(_ number: Int) -> Entry? { entries.first { $0.image == number && $0.active } }

    /// The digests of what runs, by image.
    var runningDigests: [Int: [UInt8]?] {
        Dictionary(entries.filter(\.active).map { ($0.image, $0.digest) }) { first, _ in first }
    }

    /// What lies in the slots of image `number` that do not run.
    package func others(_ number: Int) -> [Entry] { entries.filter { $0.image == number && !$0.active } }

    /// The slot of image `number` that does not run, as a request to erase it names it; nil: both run.
    ///
    /// Zephyr counts the slots of all images: 0 and 1 are those of image 0, 2 and 3 those of image 1.
    func slotToErase(_ number: Int) -> Int? {
        let running = entries.filter { $0.image == number && $0.active }.map(\.slot)
        return [1, 0].first { !running.contains($0) }.map { 2 * number + $0 }
    }
}

extension SMPImageList.Entry {
    /// A flag that is not there is false.
    fileprivate init(_ value: CBORValue) throws(SMPFrameError) {
        guard let fields = value.map, let slot = fields["slot"]?.integer, let version = fields["version"]?.shortText
        else {
            throw SMPFrameError(context: "an image in the device's list has no slot or no version")
        }
        self.slot = slot
        self.version = version
        image = fields["image"]?.integer ?? 0
        digest = fields["hash"]?.bytes
        bootable = fields["bootable"]?.bool ?? false
        pending = fields["pending"]?.bool ?? false
        confirmed = fields["confirmed"]?.bool ?? false
        active = fields["active"]?.bool ?? false
        permanent = fields["permanent"]?.bool ?? false
    }
}
