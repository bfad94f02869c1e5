/// The images in a device's slots.
package struct SMPImageList: Sendable, Equatable {
    package struct Entry: Sendable, Equatable {
        /// The image number on a device with several processors; 0 on a device with one.
        package var image = 0
        package var slot = 0
        /// The version in the device's format: `1.2.3`, or `1.2.3.4` with a build number.
        package var version = ""
        /// The digest in the image's TLVs. It is not the digest of the file.
        package var digest: [UInt8]?
        package var bootable = false
        /// Whether the device boots this image at its next start.
        package var pending = false
        package var confirmed = false
        package var active = false
        package var permanent = false

        package init() {}
    }
    /// The maximum number of entries. A device has two slots for each image, and only a few images.
    private static let most = 32

    package var entries: [Entry]

    package init(_ entries: [Entry]) { self.entries = entries }

    package init(_ fields: [String: CBORValue]) throws(SMPFrameError) {
        guard let images = fields["images"]?.array, images.count <= Self.most else {
            throw SMPFrameError(context: "malformed image list from the device")
        }
        var entries: [Entry] = []
        for image in images { entries.append(try Entry(image)) }
        self.init(entries)
    }

    /// Returns the running image with this number.
    package func running(_ number: Int) -> Entry? { entries.first { $0.image == number && $0.active } }

    /// The digests of the running images, by image number.
    var runningDigests: [Int: [UInt8]?] {
        Dictionary(entries.filter(\.active).map { ($0.image, $0.digest) }) { first, _ in first }
    }

    /// Returns the images in the other slots: those with this image number that do not run.
    package func others(_ number: Int) -> [Entry] { entries.filter { $0.image == number && !$0.active } }

    /// Returns the slot of image `number` that does not run, numbered as in an erase request; nil if both slots run.
    ///
    /// Zephyr numbers the slots across all images: image 0 has the slots 0 and 1, image 1 has the slots 2 and 3.
    func slotToErase(_ number: Int) -> Int? {
        let running = entries.filter { $0.image == number && $0.active }.map(\.slot)
        return [1, 0].first { !running.contains($0) }.map { 2 * number + $0 }
    }
}

extension SMPImageList.Entry {
    /// Parses an entry. A missing flag is false.
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

/// The sizes of a device's slots. Only newer servers report them.
package struct SMPSlotList: Sendable, Equatable {
    package struct Slot: Sendable, Equatable {
        package var image: Int
        package var slot: Int
        /// The size in bytes.
        package var size: Int

        package init(image: Int, slot: Int, size: Int) {
            self.image = image
            self.slot = slot
            self.size = size
        }
    }
    package var slots: [Slot] = []
    /// The largest image in bytes without the boot trailer, by image number, if the device reports it.
    package var largestImages: [Int: Int] = [:]

    /// Parses the fields of an answer. A slot without a size is skipped: the device could not open it.
    package init(_ fields: [String: CBORValue]) throws(SMPFrameError) {
        guard let images = fields["images"]?.array else {
            throw SMPFrameError(context: "malformed slot list from the device")
        }
        for value in images {
            guard let image = value.map, let slots = image["slots"]?.array else { continue }
            let number = image["image"]?.integer ?? 0
            if let largest = image["max_image_size"]?.integer { largestImages[number] = largest }
            for slot in slots.compactMap(\.map) {
                guard let index = slot["slot"]?.integer, let size = slot["size"]?.integer else { continue }
                self.slots.append(Slot(image: number, slot: index, size: size))
            }
        }
    }

    /// Returns the size in bytes of the largest image that fits the slot other than `running`; nil if it is unknown.
    package func largestImage(_ number: Int, running: Int?) -> Int? {
        largestImages[number] ?? slots.filter { $0.image == number && $0.slot != running }.map(\.size).max()
    }
}
